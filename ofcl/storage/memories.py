"""The memories in the checkpoints of a run: reading them, listing samples, deleting them for good.

Memories are personal data. A sample is identified by its client and its number: 0 for the first
sample that arrived in the client's stream, and so on. Deleting removes it from every checkpoint of
the run; models that have learned from it do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.state import State
from ofcl.storage.checkpoint import load_checkpoint, rewrite
from ofcl.storage.encryption import Seal
from ofcl.storage.run_directory import RunDirectory


@dataclass(frozen=True)
class MemoryPlace:
    """The place where the memory of a client is saved.

    Attributes:
        client: The client's number.
        folder: The folder of the checkpoints that contain the memory: the client's own, or the
            run's.
    """

    client: int
    folder: Path


@dataclass(frozen=True)
class SavedMemory:
    """A client's memory, as read from its newest checkpoint.

    Attributes:
        place: The place where it is saved.
        table: The columns `id`, `y`, `task` and `key`, with a row for each sample.
        x: The samples, in the order of the table.
        arrived: The number of samples that have come to the client so far.
        dropped: The keys of the samples that the memory dropped last.
    """

    place: MemoryPlace
    table: dict[str, Tensor]
    x: Tensor
    arrived: int
    dropped: Tensor


@dataclass(frozen=True)
class SampleRecord:
    """A line in the list of remembered samples: where a sample is from, without its content.

    Attributes:
        client: The number of the client that remembers the sample.
        number: The number of the sample's arrival in the client's stream: 0, 1, …
        class_: The class of the sample.
        task: The task in which the sample arrived.
    """

    client: int
    number: int
    class_: int
    task: int


def memory_places(run: RunDirectory) -> list[MemoryPlace]:
    """Finds out where the clients of a run have saved their memories.

    Args:
        run: The directory of the run.

    Raises:
        OfclError: If it is a run between parties; their memories are on their own machines.
    """
    settings = run.settings()
    if settings.engine == "flower":
        raise OfclError(
            f"'{run.path}' is a run between parties, each of which has its own memory: ofcl memory "
            "list PARTY, there"
        )
    folders = run.client_folders(settings.clients)
    if not any(folder.exists() for folder in folders):
        folders = [run.checkpoints] * settings.clients  # clients in one process with the server
    return [MemoryPlace(client, folder) for client, folder in enumerate(folders)]


def read_memories(
    places: Iterable[MemoryPlace],
    seal: Seal | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[SavedMemory]:
    """Yields the saved memories one after the other; clients without a saved memory are left out.

    A party that learns a model alone, too (`--local-too`), has two memories.

    Args:
        places: The places of the memories.
        seal: Decrypts the checkpoints; None if they are not encrypted.
        tell: Receives a line about each damaged checkpoint.
    """
    for folder, in_folder in groupby(places, key=lambda place: place.folder):
        checkpoint = load_checkpoint(folder, tell, seal)
        if checkpoint is None:
            continue
        for place in in_folder:
            for memory in _memory_states(checkpoint.state, place.client):
                yield SavedMemory(
                    place=place,
                    table=memory["samples"],
                    x=memory["x"],
                    arrived=int(memory["arrived"]),
                    dropped=memory.get("dropped", torch.empty(0)),
                )


def remembered_bytes(run: RunDirectory) -> list[float]:
    """Counts the bytes of each client's memory in a run.

    That is the samples, and what the method keeps to choose among them: keys, and where they follow
    the client's model, a copy of that model.

    Args:
        run: The directory of the run, which keeps its last checkpoint.

    Returns:
        The bytes of each client, 0 without a memory; empty if there is no checkpoint.
    """
    counted = []
    for folder, in_folder in groupby(memory_places(run), key=lambda place: place.folder):
        checkpoint = load_checkpoint(folder, lambda _: None)
        for place in in_folder if checkpoint is not None else ():
            assert checkpoint is not None
            memories = _memory_states(checkpoint.state, place.client)
            counted.append(float(sum(map(_bytes, memories))))
    return counted


def _bytes(value: Any) -> int:
    """Counts the bytes of all tensors in nested plain values."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 0


def list_samples(memory: SavedMemory) -> list[SampleRecord]:
    """Lists the samples in a memory, in the order of their arrival.

    Args:
        memory: The memory.
    """
    columns = (memory.table[name].tolist() for name in ("id", "y", "task"))
    rows = sorted(zip(*columns, strict=True))
    return [SampleRecord(memory.place.client, *row) for row in rows]


def forget(
    places: Sequence[MemoryPlace], client: int, numbers: Collection[int], seal: Seal | None = None
) -> list[int]:
    """Deletes samples of a client from every checkpoint.

    No process of the run may be learning meanwhile: it would write the samples to disk again.

    Args:
        places: The places of the memories.
        client: The number of the client that remembers the samples.
        numbers: The numbers of the samples' arrivals in the client's stream.
        seal: Decrypts and encrypts the checkpoints; None if they are not encrypted.

    Returns:
        The numbers of the samples that have been deleted; [] if none was in a checkpoint.

    Raises:
        OfclError: If there is no such client, or a checkpoint is damaged. Then nothing is deleted.
    """
    of_client = [place for place in places if place.client == client]
    if not of_client:
        clients = ", ".join(sorted({str(place.client) for place in places})) or "none"
        raise OfclError(f"no client {client} here; there is: {clients}")
    deleted: set[int] = set()

    def change(state: State) -> None:
        for memory in _memory_states(state, client):
            deleted.update(_delete(memory, numbers))

    for place in of_client:
        rewrite(place.folder, change, seal)
    return sorted(deleted)


def _delete(memory: State, numbers: Collection[int]) -> list[int]:
    """Deletes samples from a memory's state in place; returns the numbers of those that were in it.

    Args:
        memory: The state of the memory.
        numbers: The numbers of the samples' arrivals.
    """
    ids = memory["samples"]["id"]
    going = torch.isin(ids, torch.tensor(sorted(numbers), dtype=ids.dtype))
    deleted: list[int] = ids[going].tolist()
    memory["samples"] = {name: column[~going] for name, column in memory["samples"].items()}
    memory["x"], memory["places"] = memory["x"][~going], memory["places"][~going]
    if "extras" in memory:
        memory["extras"] = {name: values[~going] for name, values in memory["extras"].items()}
    return deleted


def _memory_states(state: State, client: int) -> list[State]:
    """Finds the states of a client's memories in the state of a checkpoint.

    Args:
        state: The state of the client, or of the run.
        client: The client's number.

    Returns:
        The state of the memory, and of that of a learner that accompanies the client's; [] if the
        checkpoint has none for this client.
    """
    if "client" in state:
        client_state = state["client"]
    elif "clients" in state["engine"]:
        client_state = state["engine"]["clients"][client]
    else:  # the clients were in other processes, and have saved nothing yet
        return []
    learner = client_state["learner"]
    memories = [learner.get("memory"), learner.get("alone", {}).get("memory")]
    return [memory for memory in memories if memory is not None]
