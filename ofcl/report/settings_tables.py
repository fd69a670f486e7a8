"""Tables of settings on the page: those that differ within a dataset, and those that all have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ofcl.report.naming import plain_value
from ofcl.report.recorded_runs import Experiment
from ofcl.settings.schema import Settings

HIDDEN = {"data_root", "device", "checkpoint_every"}  # settings without influence on results
_SHOWN = [name for name in Settings.model_fields if name not in {*HIDDEN, "seed"}]


def settings_that_differ(experiments: Sequence[Experiment]) -> list[list[str]]:
    """Lists the values of settings that differ, and which experiments have them.

    One below the other, they need no more room the more experiments there are.

    Args:
        experiments: The experiments of one dataset.

    Returns:
        A row for each value that is set: the setting, the value, the names of the experiments.
    """
    return [
        [name, value, "; ".join(names)]
        for name in _SHOWN
        if len(having := _names_by_value(experiments, name)) > 1
        for value, names in having.items()
        if value
    ]


def common_settings(experiments: Sequence[Experiment]) -> list[list[str]]:
    """Lists the settings that all experiments have, with their values; unset ones are left out.

    Args:
        experiments: The experiments of one dataset.
    """
    return [
        [name, value]
        for name in _SHOWN
        if len(having := _names_by_value(experiments, name)) == 1
        for value in having
        if value
    ]


def _names_by_value(experiments: Sequence[Experiment], name: str) -> dict[str, list[str]]:
    """Returns, for each value of a setting as text, the experiments that have it."""
    having: dict[str, list[str]] = defaultdict(list)
    for experiment in experiments:
        having[plain_value(getattr(experiment.runs[0].settings, name))].append(
            experiment.named.within
        )
    return having
