"""Clients' memories to look at: some of their samples, how uncertain these are and how old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.methods import METHODS
from ofcl.report.recorded_runs import RunView
from ofcl.report.sample_content import ClientTexts, as_pictures, as_words, read_texts
from ofcl.storage.memories import SavedMemory, memory_places, read_memories

PAGE = 600  # samples of a run that are shown, at most


@dataclass(frozen=True)
class ShownSample:
    """A remembered sample as the page shows it."""

    number: int  # of its arrival in the client's stream, from 0
    label: str
    task: int
    age: int  # samples that have come since
    uncertainty: float | None
    picture: str = ""  # PNG as a data URI
    text: str = ""  # of a sample that is no image: its text, or its first numbers


@dataclass(frozen=True)
class ShownMemory:
    """A client's memory as the page shows it."""

    client: int
    size: int
    samples: list[ShownSample]  # a part of them, by class
    kept: list[float]  # uncertainty of all samples of which it is known
    dropped: list[float]  # uncertainty of the samples that were dropped last


def view_memories(
    run: RunView, most: int, tell: Callable[[str], None] = print
) -> list[ShownMemory]:
    """Reads the memories of a run's clients from its checkpoints, for the page.

    Args:
        run: The run.
        most: How many samples of each memory are shown, at most.
        tell: Receives a line about each checkpoint that cannot be read.

    Returns:
        A memory for each client that has one; empty for runs between parties, or without
        checkpoints.
    """
    if run.settings.engine == "flower":  # each party has its own memory, at its own place
        return []
    try:
        memories = list(read_memories(memory_places(run.directory), tell=tell))
    except OfclError as error:  # the rest of the run can still be shown
        tell(str(error))
        return []
    if not memories:
        return []
    texts = read_texts(run)
    # A page of very many clients shows less of each.
    most = min(most, max(PAGE // len(memories), 1)) if most else 0
    return [_view(run, memory, most, texts) for memory in memories]


def uncertainties(memories: Sequence[ShownMemory]) -> dict[str, list[float]]:
    """Collects the uncertainty of kept and of dropped samples of all clients.

    Args:
        memories: The clients' memories.

    Returns:
        The values by `kept` and `dropped`; an empty dictionary if none is known.
    """
    kept = [value for memory in memories for value in memory.kept]
    dropped = [value for memory in memories for value in memory.dropped]
    return {"kept": kept, "dropped": dropped} if kept or dropped else {}


def _view(run: RunView, memory: SavedMemory, most: int, texts: ClientTexts | None) -> ShownMemory:
    """Turns a saved memory into what the page shows of it.

    Args:
        run: The run.
        memory: The memory as a checkpoint has it.
        most: How many samples are shown, at most.
        texts: The texts that came to each client; None: samples are no texts, or unknown.
    """
    table, client = memory.table, memory.place.client
    uncertainty = _uncertainty(run, table["key"])
    known = ~uncertainty.isnan()
    rows = _some_of_each_class(table["y"].numpy(), table["id"].numpy(), most)
    x, numbers = memory.x[rows], table["id"][rows].tolist()
    pictures = as_pictures(run, x)
    words = None
    if pictures is None:
        words = as_words(run, x, numbers, texts[client] if texts is not None else None)
    samples = [
        ShownSample(
            number=numbers[n],
            label=run.labels[int(table["y"][row])],
            task=int(table["task"][row]),
            age=memory.arrived - 1 - numbers[n],
            uncertainty=float(uncertainty[row]) if known[row] else None,
            picture=pictures[n] if pictures is not None else "",
            text=words[n] if words is not None else "",
        )
        for n, row in enumerate(rows.tolist())
    ]
    dropped = _uncertainty(run, memory.dropped)
    return ShownMemory(
        client=client,
        size=len(table["y"]),
        samples=samples,
        kept=uncertainty[known].tolist(),
        dropped=dropped[~dropped.isnan()].tolist(),
    )


def _uncertainty(run: RunView, keys: Tensor) -> Tensor:
    """Turns the keys of samples into their uncertainty; NaN for methods without a score.

    Args:
        run: The run, whose settings say what its keys are.
        keys: The key of each sample, by which the memory keeps samples.
    """
    method = METHODS.get(run.settings.method)
    if run.settings.score is None and (method is None or method.score is None):
        return torch.full_like(keys, torch.nan, dtype=torch.double)
    return -keys.double() if run.settings.keep == "top" else keys.double()


def _some_of_each_class(y: np.ndarray, number: np.ndarray, most: int) -> np.ndarray:
    """Chooses samples to show, as evenly over the classes as possible.

    Args:
        y: The class of each sample.
        number: The number of each sample's arrival.
        most: How many samples to choose, at most.

    Returns:
        The rows of the chosen samples, ordered by class and then by arrival.
    """
    order = np.lexsort((number, y))
    if len(order) <= most:
        return order
    rank = np.zeros(len(y), dtype=int)
    for c in np.unique(y):
        of_class = order[y[order] == c]
        rank[of_class] = np.arange(len(of_class))
    first = np.lexsort((number, y, rank))[:most]
    return first[np.lexsort((number[first], y[first]))]
