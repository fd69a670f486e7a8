"""Which runs are of one experiment, and which settings tell the experiments of a dataset apart."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from ofcl.data.files.image_embedders import embeds_images
from ofcl.methods import METHODS
from ofcl.settings.files import preset
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings

MAY_DIFFER = {"seed", "device", "engine", "ray", "checkpoint_every", "data_root", "start", "fit",
              "licence", "threads", "on_bad"}  # fmt: skip
"""Settings that may differ between the runs of one experiment."""

_ALWAYS_SHOWN = ["dataset", "method", "memory", "protocol"]
_OF_THE_DATASET = {"dataset", "streams"}  # settings that say where the samples come from
_WATCHED = "watch:"


def experiment_key(settings: Settings) -> str:
    """Returns a text that is the same for all runs of an experiment, and another for other runs.

    It is the settings as JSON, without those in `MAY_DIFFER`, such as the seed, and those that do
    nothing in the run. A run that goes on from another is of another experiment than one that
    begins anew.

    Args:
        settings: The settings of one run.
    """
    went_on = "" if settings.start is None else " from an earlier run"
    return settings.model_dump_json(exclude=MAY_DIFFER | _without_influence(settings)) + went_on


def _without_influence(settings: Settings) -> set[str]:
    """Returns the settings that do nothing in a run, and that earlier versions had otherwise."""
    return set() if embeds_images(settings.embedder) else {"features"}


def dataset_key(settings: Settings) -> str:
    """Returns the dataset of a run; of streams, the folder that they have in common.

    Args:
        settings: The settings of the run.

    Returns:
        The name or path as it was given. Streams that are no folders are called `streams`.
    """
    if not settings.streams:
        return settings.dataset
    folders = [s.removeprefix(_WATCHED) for s in settings.streams if s.startswith(_WATCHED)]
    if len(folders) < len(settings.streams):
        return "streams"
    try:
        common = os.path.commonpath(folders) if len(folders) > 1 else folders[0]
    except ValueError:  # one is relative, one is not
        common = ""
    return f"{common.rstrip(os.sep)} (streams)" if common.strip(os.sep) else "streams"


def differing_settings(block: Sequence[Settings]) -> list[set[str]]:
    """Chooses the settings by which the experiments of one dataset are told apart.

    Defaults are left out, also those of a protocol, whose name says them; so is what a protocol has
    chosen for the data.

    Args:
        block: The settings of each experiment.

    Returns:
        The names for each experiment.
    """
    defaults: dict[tuple[str, str], Settings] = {
        pair: make_settings({"protocol": pair[0], "dataset": pair[1]})
        for pair in {(s.protocol, s.dataset) for s in block}
    }
    hidden = {*MAY_DIFFER, *_OF_THE_DATASET} - {"start"}
    others = [name for name in Settings.model_fields if name not in hidden]
    differing = {name for name in others if _differs(name, block, defaults)}
    fitted = differing & _left_to_the_data(block)
    alike: dict[Hashable, list[Settings]] = defaultdict(list)
    for settings in block:
        alike[_fitted_alike(settings)].append(settings)
    given = {key: {name for name in fitted if _differs(name, some, {})}
             for key, some in alike.items()}  # fmt: skip
    return [
        {name for name in differing - fitted if not _is_default(s, name, defaults)}
        | given[_fitted_alike(s)]
        for s in block
    ]


def _differs(
    name: str, block: Sequence[Settings], defaults: dict[tuple[str, str], Settings]
) -> bool:
    """Says whether experiments differ in a setting; all defaults count as one value.

    Args:
        name: The name of the setting.
        block: The settings of each experiment.
        defaults: The defaults of each protocol and dataset; empty: none counts as such.
    """
    values = {"default" if _is_default(s, name, defaults) else getattr(s, name) for s in block}
    return len(values) > 1


def _is_default(settings: Settings, name: str, defaults: dict[tuple[str, str], Settings]) -> bool:
    """Says whether a setting has the default of its protocol and dataset.

    Args:
        settings: The settings of an experiment.
        name: The name of the setting; those that are always shown are told with any value.
        defaults: The defaults of each protocol and dataset.
    """
    if name in _without_influence(settings):
        return True
    default = defaults.get((settings.protocol, settings.dataset))
    if default is None or name in _ALWAYS_SHOWN:
        return False
    # A run's learning rate has been filled in from that of its optimiser.
    source = f"{settings.optimizer}_lr" if name == "lr" else name
    return bool(getattr(settings, name) == getattr(default, source, None))


def _left_to_the_data(block: Sequence[Settings]) -> set[str]:
    """Returns the settings that a protocol of the block chooses for the data, or from those."""
    chosen = {name for p in {s.protocol for s in block} for name in preset(p).get("fit", ())}
    return chosen | {"optimizer", "lr", "sgd_lr"} if chosen else set()


def _fitted_alike(settings: Settings) -> Hashable:
    """Returns what the values chosen for the data depend on, besides the data."""
    method = METHODS.get(settings.method)  # a method of somebody's own is not imported to compare
    return settings.protocol, method is not None and method.generative is not None


def distinguishing_settings(settings: Sequence[Settings]) -> list[str]:
    """Chooses the names of the settings to show when experiments are compared.

    These are dataset, method, memory and protocol, and all others that tell experiments of a
    dataset apart.

    Args:
        settings: The settings of each experiment.
    """
    blocks: dict[str, list[Settings]] = defaultdict(list)
    for some in settings:
        blocks[dataset_key(some)].append(some)
    differing = {n for b in blocks.values() for names in differing_settings(b) for n in names}
    others = [name for name in Settings.model_fields if name not in _ALWAYS_SHOWN]
    return _ALWAYS_SHOWN + [name for name in others if name in differing]


def shown_value(settings: Settings, name: str) -> Any:
    """Returns the value of a setting for a table; with streams, the dataset is shown as `streams`.

    Args:
        settings: The settings of a run.
        name: The name of the setting.
    """
    return "streams" if name == "dataset" and settings.streams else getattr(settings, name)
