"""Memories are personal data: what a run remembers can be listed, and forgotten for good.

A sample is known by its client and its number: that of its arrival in the client's stream, from 0.
It goes from every checkpoint of the run. What the models have learned from it stays in them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch

from ofcl.checkpoint import load_checkpoint, rewrite
from ofcl.errors import OfclError
from ofcl.runs import RunDirectory
from ofcl.state import State


@dataclass(frozen=True)
class Remembered:
    """A sample in a client's memory."""

    client: int
    number: int
    label: int  # its place in the vocabulary
    task: int


def remembered(run: RunDirectory) -> list[Remembered]:
    """All samples that a run remembers, by client and arrival."""
    found = []
    for client, folder in enumerate(_folders(run)):
        checkpoint = load_checkpoint(folder, lambda _: None)
        memory = _memory(checkpoint.state, client) if checkpoint else None
        if memory is not None:
            table = memory["samples"]
            columns = (table[name].tolist() for name in ("id", "y", "task"))
            found += [Remembered(client, *row) for row in sorted(zip(*columns, strict=True))]
    return found


def forget(run: RunDirectory, client: int, numbers: Collection[int]) -> list[int]:
    """Deletes samples of a client from all that is saved; gives the numbers that were there.

    The run must not be going on: it would save them again.
    """
    folders = _folders(run)
    if not 0 <= client < len(folders):
        raise OfclError(f"no client {client} in '{run.path}'; expected 0 to {len(folders) - 1}")
    gone: set[int] = set()

    def change(state: State) -> None:
        memory = _memory(state, client)
        if memory is not None:
            gone.update(_delete(memory, numbers))

    with run.lock():
        rewrite(folders[client], change)
    return sorted(gone)


def _delete(memory: State, numbers: Collection[int]) -> list[int]:
    ids = memory["samples"]["id"]
    going = torch.isin(ids, torch.tensor(sorted(numbers), dtype=ids.dtype))
    gone: list[int] = ids[going].tolist()
    memory["samples"] = {name: column[~going] for name, column in memory["samples"].items()}
    memory["x"], memory["places"] = memory["x"][~going], memory["places"][~going]
    return gone


def _folders(run: RunDirectory) -> list[Path]:
    """Where the checkpoints of each client are: its own, or those of the run."""
    clients = run.settings().clients
    apart = run.client_folders(clients)
    return apart if any(folder.exists() for folder in apart) else [run.checkpoints] * clients


def _memory(state: State, client: int) -> State | None:
    saved = state["client"] if "client" in state else state["engine"]["clients"][client]
    memory: State | None = saved["learner"].get("memory")
    return memory
