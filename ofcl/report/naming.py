"""Names of datasets and experiments, short enough for a table, a legend and a phone.

A dataset is called by the last part of its path, an experiment by its method and by what differs
between the experiments of its dataset.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ofcl.report.grouping import dataset_key, differing_settings, experiment_key
from ofcl.settings.schema import Settings

MOST = 6  # settings in a name
_PATHS = {"embedder", "test"}  # settings whose values may be paths


@dataclass(frozen=True)
class ExperimentName:
    """The name of an experiment.

    Args:
        dataset: The name of its dataset.
        within: The name that no other experiment of its dataset has.
        whole: The name that no other experiment of all has.
    """

    dataset: str
    within: str
    whole: str


def name_experiments(settings: Sequence[Settings]) -> dict[str, ExperimentName]:
    """Names experiments.

    Args:
        settings: The settings of each experiment.

    Returns:
        The name of each, by its `experiment_key`. The whole name begins with the dataset where
        there are several.
    """
    blocks: dict[str, list[Settings]] = defaultdict(list)
    for some in settings:
        blocks[dataset_key(some)].append(some)
    datasets = short_names(blocks)
    names = {}
    for key, block in blocks.items():
        start = f"{datasets[key]} " if len(blocks) > 1 else ""
        for some, within in zip(block, _names_within(block), strict=True):
            name = ExperimentName(datasets[key], within, start + within)
            names[experiment_key(some)] = name
    return names


def _names_within(block: Sequence[Settings]) -> list[str]:
    """Names the experiments of one dataset by what differs; names that repeat are numbered."""
    shown = [names - {"method"} for names in differing_settings(block)]
    fields = list(Settings.model_fields)
    names, count = [], Counter[str]()
    for settings, chosen in zip(block, shown, strict=True):
        words = [in_words(name, getattr(settings, name)) for name in fields if name in chosen]
        said = list(filter(None, words))
        if len(said) > MOST:
            said[MOST - 1 :] = [f"{len(said) - MOST + 1} settings more"]
        name = ", ".join([settings.method, *said])
        count[name] += 1
        names.append(name if count[name] == 1 else f"{name} ({count[name]})")
    return names


def in_words(name: str, value: Any) -> str:
    """Says a setting's value in few words.

    Args:
        name: The name of the setting.
        value: Its value.

    Returns:
        The words; empty if the setting is not set, or says yes or no as it does by default.

    >>> in_words("memory", 500), in_words("joint", True), in_words("label", None)
    ('memory 500', 'joint', '')
    """
    if name == "start":  # another path for each seed
        return "from an earlier run" if value else ""
    if isinstance(value, bool):
        by_default = Settings.model_fields[name].default
        return "" if value == by_default else name if value else f"{name} false"
    text = plain_value(value)
    return f"{name} {_last_part(text) if name in _PATHS else text}" if text else ""


def plain_value(value: Any) -> str:
    """Returns a setting's value as text; empty if it is not set.

    Args:
        value: The value.

    >>> plain_value(("age", "weight")), plain_value(3e-3), plain_value(()), plain_value(None)
    ('age + weight', '0.003', '', '')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " + ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def short_names(sources: Iterable[str]) -> dict[str, str]:
    """Names datasets by the last part of their paths, and by as many parts as tell them apart.

    Args:
        sources: The datasets, by name or by path.

    >>> short_names(["cifar10", "/data/north/heart.csv", "/data/south/heart.csv"]).values()
    dict_values(['cifar10', 'north/heart.csv', 'south/heart.csv'])
    """
    parts = {source: [p for p in source.split(os.sep) if p] or [source] for source in sources}
    taken = dict.fromkeys(parts, 1)

    def named() -> dict[str, str]:
        """Names each dataset by the parts that are taken now."""
        return {source: os.sep.join(parts[source][-n:]) for source, n in taken.items()}

    for _ in range(max(map(len, parts.values()), default=0)):
        names = named()
        often = Counter(names.values())
        for source in taken:
            taken[source] += often[names[source]] > 1
    names = named()
    often = Counter(names.values())  # `data` and `/data` differ in no part
    return {source: name if often[name] == 1 else source for source, name in names.items()}


def _last_part(text: str) -> str:
    """Returns the last part of a path; a text that is none comes back unchanged."""
    return os.path.basename(text.rstrip(os.sep)) or text
