"""Which runs are of one experiment, and which settings tell experiments apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings

MAY_DIFFER = {"seed", "device", "engine", "ray", "checkpoint_every", "data_root", "start"}
"""Settings that may differ between the runs of one experiment."""

_ALWAYS_SHOWN = ["dataset", "method", "memory", "protocol"]


def experiment_key(settings: Settings) -> str:
    """Returns a text that is the same for all runs of an experiment, and another for other runs.

    It is the settings as JSON, without those in `MAY_DIFFER`, such as the seed. A run that goes on
    from another is of another experiment than one that begins anew.

    Args:
        settings: The settings of one run.
    """
    went_on = "" if settings.start is None else " from an earlier run"
    return settings.model_dump_json(exclude=MAY_DIFFER) + went_on


def distinguishing_settings(settings: Sequence[Settings]) -> list[str]:
    """Chooses the names of the settings to show when experiments are compared.

    These are dataset, method, memory and protocol, and all others that differ. A value that differs
    only because its protocol or dataset has another default is left out: the protocol's name says
    it.

    Args:
        settings: The settings of each experiment.
    """
    defaults = {
        pair: make_settings({"protocol": pair[0], "dataset": pair[1]})
        for pair in {(s.protocol, s.dataset) for s in settings}
    }

    def is_default(s: Settings, name: str) -> bool:
        # A run's learning rate has been filled in from that of its optimiser.
        """Says whether a setting has the default of its protocol and dataset.

        Args:
            s: The settings of an experiment.
            name: The name of the setting.
        """
        source = f"{s.optimizer}_lr" if name == "lr" else name
        return bool(getattr(s, name) == getattr(defaults[s.protocol, s.dataset], source))

    def differs(name: str) -> bool:
        """Says whether experiments differ in a setting; all defaults count as one value."""
        values = {"default" if is_default(s, name) else getattr(s, name) for s in settings}
        return len(values) > 1

    hidden = {*_ALWAYS_SHOWN, *MAY_DIFFER} - {"start"}
    others = [n for n in Settings.model_fields if n not in hidden]
    return _ALWAYS_SHOWN + [name for name in others if differs(name)]


def shown_value(settings: Settings, name: str) -> Any:
    """Returns the value of a setting for a table; with streams, the dataset is shown as `streams`.

    Args:
        settings: The settings of a run.
        name: The name of the setting.
    """
    return "streams" if name == "dataset" and settings.streams else getattr(settings, name)


def experiment_names(settings: Sequence[Settings]) -> list[str]:
    """Returns a name for each experiment: its method, and the other settings that differ.

    Args:
        settings: The settings of each experiment.
    """
    shown = [name for name in distinguishing_settings(settings) if name != "method"]
    differing = [n for n in shown if len({str(getattr(s, n)) for s in settings}) > 1]
    return [
        ", ".join([s.method, *(f"{name} {getattr(s, name)}" for name in differing)])
        for s in settings
    ]
