"""Which runs are of one experiment, and which settings tell experiments apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings

MAY_DIFFER = {"seed", "device", "engine", "ray", "checkpoint_every", "data_root"}
"""Settings that may differ between the runs of one experiment."""

_ALWAYS_SHOWN = ["dataset", "method", "memory", "protocol"]


def experiment_key(settings: Settings) -> str:
    """Writes down what all runs of an experiment have in common; equal for all its runs.

    Args:
        settings: the settings of one of the runs.
    """
    return settings.model_dump_json(exclude=MAY_DIFFER)


def distinguishing_settings(settings: Sequence[Settings]) -> list[str]:
    """Names the settings to show: those that name an experiment, and those that differ.

    A value that differs only because its protocol or dataset has another default is left out: the
    protocol's name says it.

    Args:
        settings: the settings of each experiment.
    """
    defaults = {
        pair: make_settings({"protocol": pair[0], "dataset": pair[1]})
        for pair in {(s.protocol, s.dataset) for s in settings}
    }

    def is_default(s: Settings, name: str) -> bool:
        # A run's learning rate has been filled in from that of its optimiser.
        source = f"{s.optimizer}_lr" if name == "lr" else name
        return bool(getattr(s, name) == getattr(defaults[s.protocol, s.dataset], source))

    def differs(name: str) -> bool:
        values = {"default" if is_default(s, name) else getattr(s, name) for s in settings}
        return len(values) > 1

    others = [n for n in Settings.model_fields if n not in {*_ALWAYS_SHOWN, *MAY_DIFFER}]
    return _ALWAYS_SHOWN + [name for name in others if differs(name)]


def shown_value(settings: Settings, name: str) -> Any:
    """Reads a setting as a table shows it: a run that learns from streams has no dataset.

    Args:
        settings: the settings.
        name: the setting.
    """
    return "streams" if name == "dataset" and settings.streams else getattr(settings, name)


def experiment_names(settings: Sequence[Settings]) -> list[str]:
    """Names experiments in words: by the method, and by the other settings that differ.

    Args:
        settings: the settings of each experiment.
    """
    shown = [name for name in distinguishing_settings(settings) if name != "method"]
    differing = [n for n in shown if len({str(getattr(s, n)) for s in settings}) > 1]
    return [
        ", ".join([s.method, *(f"{name} {getattr(s, name)}" for name in differing)])
        for s in settings
    ]
