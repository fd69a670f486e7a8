"""`ofcl list`: the names of datasets, methods, protocols, models and settings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from ofcl.cli.terminal import out_console
from ofcl.data.named.catalogue import DATASETS
from ofcl.errors import unknown
from ofcl.methods import METHODS
from ofcl.models import MODELS
from ofcl.settings import files as settings_files
from ofcl.settings.schema import Settings


def list_(
    what: Annotated[str, typer.Argument(help="datasets, methods, protocols, models or settings")],
) -> None:
    """List what can be chosen by name."""
    tables = {
        "datasets": lambda: {n: source.summary for n, source in DATASETS.items()},
        "methods": lambda: {name: method.summary for name, method in METHODS.items()},
        "protocols": lambda: {name: _preset_summary(name) for name in settings_files.presets()},
        "models": lambda: {name: model.summary for name, model in MODELS.items()},
        "settings": _settings_help,
    }
    if what not in tables:
        raise unknown("list", what, tables)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, summary in tables[what]().items():
        table.add_row(name, summary)
    out_console.print(table, highlight=False)


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
