"""`ofcl list`: the names of datasets, methods, models and other parts, protocols and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from ofcl.cli.terminal import out_console
from ofcl.data.named.catalogue import DATASETS
from ofcl.errors import unknown
from ofcl.methods import METHODS
from ofcl.methods.losses import LOSSES
from ofcl.models import MODELS
from ofcl.own_parts.kinds import installed, origin
from ofcl.pretrained.backbone_names import BACKBONES
from ofcl.report.trackers import TRACKERS
from ofcl.settings import files as settings_files
from ofcl.settings.schema import NAMES, Settings
from ofcl.uncertainty.scores import LABELLED_SCORES, SCORES

PARTS: dict[str, tuple[str, Callable[[], Mapping[str, Any]]]] = {
    "datasets": ("dataset", lambda: DATASETS),
    "methods": ("method", lambda: METHODS),
    "models": ("model", lambda: {**MODELS, **BACKBONES}),
    "losses": ("loss", lambda: LOSSES),
    "scores": ("score", lambda: {**SCORES, **LABELLED_SCORES}),
    "policies": ("policy", dict),
    "augmentations": ("augment", lambda: dict.fromkeys(NAMES["augment"], "")),
    "optimizers": ("optimizer", lambda: dict.fromkeys(NAMES["optimizer"], "")),
    "aggregations": ("aggregation", lambda: dict.fromkeys(NAMES["aggregation"], "")),
    "feeds": ("feed", lambda: {"watch:FOLDER": "files that will appear", "-": "standard input"}),
    "trackers": ("tracker", lambda: TRACKERS),
}
"""The kinds of parts by the words of the command line: the kind, and the package's own by name."""


def list_(
    what: Annotated[
        str | None,
        typer.Argument(help=f"{', '.join(PARTS)}, protocols or settings; unset: what there is"),
    ] = None,
) -> None:
    """List what can be chosen by name; parts of installed packages say where they are from."""
    others = {
        "protocols": lambda: {name: _preset_summary(name) for name in settings_files.presets()},
        "settings": _settings_help,
    }
    if what is not None and what not in {**PARTS, **others}:
        raise unknown("list", what, {**PARTS, **others})
    table = Table(box=None, show_header=False, pad_edge=False)
    if what is None:
        rows = {word: _counted(word) for word in PARTS} | {
            word: f"ofcl list {word}" for word in others
        }
    else:
        rows = others[what]() if what in others else _parts(what)
    for name, summary in rows.items():
        table.add_row(name, summary)
    out_console.print(table, highlight=False)


def _counted(what: str) -> str:
    """Says how many parts of a kind the package has, and names those of installed packages."""
    kind, own = PARTS[what]
    others = [f"{name} from {origin(point)}" for name, point in installed(kind).items()]
    return ", ".join([f"{len(own())} of ofcl", *others])


def _parts(what: str) -> dict[str, str]:
    """Lists parts: those of the package with a summary, others with the package they are from."""
    kind, own = PARTS[what]
    known = {name: _summary(part) for name, part in own().items()}
    others = {name: f"from {origin(point)}" for name, point in installed(kind).items()}
    return {**others, **known}


def _summary(part: Any) -> str:
    """Gives a few words about a part: its summary, or the first line of its docstring."""
    if isinstance(part, str):
        return part
    summary = getattr(part, "summary", None) or (part.__doc__ or "").strip().splitlines()[0]
    return str(summary)


def _preset_summary(name: str) -> str:
    """Lists the values of a preset in one line."""
    values = settings_files.preset(name)
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _settings_help() -> dict[str, str]:
    """Gives a line of help for each setting, with its default, by the setting's name."""
    return {
        name: f"{field.description} (default {field.default!r})"
        for name, field in Settings.model_fields.items()
    }
