"""Memories are personal data: what a run remembers can be listed, and forgotten for good.

A sample is known by its client and its number: that of its arrival in the client's stream, from 0.
It goes from every checkpoint of the run. What the models have learned from it stays in them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ofcl.errors import OfclError
from ofcl.state import State
from ofcl.storage.checkpoint import load_checkpoint, rewrite
from ofcl.storage.encryption import Seal
from ofcl.storage.run_directory import RunDirectory


@dataclass(frozen=True)
class Shelf:
    """Where the memory of a client is saved: a folder of checkpoints, of its own or of a run."""

    client: int
    folder: Path


@dataclass(frozen=True)
class Remembered:
    """A sample in a client's memory."""

    client: int
    number: int
    label: int  # its place in the vocabulary
    task: int


def shelves(run: RunDirectory) -> list[Shelf]:
    """Where the clients of a run have their memories."""
    if run.settings().engine == "flower":
        raise OfclError(
            f"'{run.path}' is a run between parties, each of which has its own memory: ofcl memory "
            "list PARTY, there"
        )
    clients = run.settings().clients
    apart = run.client_folders(clients)
    there = any(folder.exists() for folder in apart)
    return [Shelf(k, apart[k] if there else run.checkpoints) for k in range(clients)]


def remembered(found: Sequence[Shelf], seal: Seal | None = None) -> list[Remembered]:
    """All samples that are remembered, by client and arrival."""
    samples = []
    for shelf in found:
        checkpoint = load_checkpoint(shelf.folder, lambda _: None, seal)
        memory = _memory(checkpoint.state, shelf.client) if checkpoint else None
        if memory is not None:
            table = memory["samples"]
            columns = (table[name].tolist() for name in ("id", "y", "task"))
            rows = sorted(zip(*columns, strict=True))
            samples += [Remembered(shelf.client, *row) for row in rows]
    return samples


def forget(
    found: Sequence[Shelf], client: int, numbers: Collection[int], seal: Seal | None = None
) -> list[int]:
    """Deletes samples of a client from all that is saved; gives the numbers that were there.

    Nobody may be learning meanwhile: he would save them again.
    """
    own = [shelf for shelf in found if shelf.client == client]
    if not own:
        there = ", ".join(sorted({str(shelf.client) for shelf in found})) or "none"
        raise OfclError(f"no client {client} here; there is: {there}")
    gone: set[int] = set()

    def change(state: State) -> None:
        memory = _memory(state, client)
        if memory is not None:
            gone.update(_delete(memory, numbers))

    for shelf in own:
        rewrite(shelf.folder, change, seal)
    return sorted(gone)


def _delete(memory: State, numbers: Collection[int]) -> list[int]:
    ids = memory["samples"]["id"]
    going = torch.isin(ids, torch.tensor(sorted(numbers), dtype=ids.dtype))
    gone: list[int] = ids[going].tolist()
    memory["samples"] = {name: column[~going] for name, column in memory["samples"].items()}
    memory["x"], memory["places"] = memory["x"][~going], memory["places"][~going]
    return gone


def _memory(state: State, client: int) -> State | None:
    saved = state["client"] if "client" in state else state["engine"]["clients"][client]
    memory: State | None = saved["learner"].get("memory")
    return memory
