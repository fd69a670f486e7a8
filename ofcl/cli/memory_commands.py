"""`ofcl memory`: lists the samples that a run or a party remembers, and deletes samples."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ofcl.cli.terminal import out_console
from ofcl.errors import OfclError
from ofcl.federation.party_side.member import RUNS
from ofcl.federation.setup.folders import PARTY_FILE, load_party
from ofcl.report.recorded_runs import read_run
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.encryption import Seal
from ofcl.storage.memories import MemoryPlace, list_samples, memory_places, read_memories
from ofcl.storage.memories import forget as forget_samples
from ofcl.storage.run_directory import RunDirectory

app = typer.Typer(help="What a run or a party remembers, and how it is made to forget.")

Place = Annotated[Path, typer.Argument(help="A run directory, or the folder of a party.")]
KeyFile = Annotated[Path | None, typer.Option(help="The key with which it was encrypted.")]


@dataclass(frozen=True)
class Memories:
    """The saved memories of a run or of a party.

    Attributes:
        places: The folders in which memories are saved, each with the number of its client.
        labels: For each of these folders, the labels in the order of their classes.
        lock: Makes a context in which no other process can learn.
    """

    places: list[MemoryPlace]
    labels: dict[Path, tuple[str, ...]]
    lock: Callable[[], AbstractContextManager[Any]]


def find_memories(directory: Path, seal: Seal | None) -> Memories:
    """Finds the memories of a run, or of a party in all its runs.

    Args:
        directory: A run directory, or the folder of a party.
        seal: Decrypts the memories; None: they are not encrypted.
    """
    if not (directory / PARTY_FILE).exists():
        run = RunDirectory(directory)
        places = memory_places(run)
        labels = read_run(run).labels
        return Memories(places, {place.folder: labels for place in places}, run.lock)
    party = load_party(directory)
    folders = sorted((directory / RUNS).glob("*"))
    of_runs = {}
    for folder in folders:
        checkpoint = load_checkpoint(folder, lambda _: None, seal)
        of_runs[folder] = tuple(checkpoint.state["note"]["labels"]) if checkpoint else ()
    return Memories([MemoryPlace(party.number, folder) for folder in folders], of_runs, party.used)


@app.command("list")
def list_(
    directory: Place,
    client: Annotated[int | None, typer.Option(help="Only this client's.")] = None,
    key_file: KeyFile = None,
) -> None:
    """List the samples that are remembered: client, number of arrival, class, task."""
    seal = Seal.from_file(key_file) if key_file else None
    memories = find_memories(directory, seal)
    places = [place for place in memories.places if client is None or place.client == client]
    table = Table("client", "id", "class", "task", box=None, pad_edge=False)
    shown: set[tuple[MemoryPlace, int]] = set()
    for memory in read_memories(places, seal):
        labels = memories.labels[memory.place.folder]
        for sample in list_samples(memory):
            label = labels[sample.class_]
            if (memory.place, sample.number) in shown:
                continue  # both memories of a party have it
            shown.add((memory.place, sample.number))
            table.add_row(str(sample.client), str(sample.number), label, str(sample.task))
    out_console.print(table, highlight=False)


@app.command()
def forget(
    directory: Place,
    number: Annotated[list[int], typer.Option("--id", help="Of the sample; may be repeated.")],
    client: Annotated[
        int | None, typer.Option(help="The client that remembers them; a party is one.")
    ] = None,
    key_file: KeyFile = None,
) -> None:
    """Delete samples from a client's memory, in every checkpoint; nobody may be learning."""
    seal = Seal.from_file(key_file) if key_file else None
    memories = find_memories(directory, seal)
    if client is None:
        if len({place.client for place in memories.places}) > 1:
            raise OfclError("several clients are here: --client says whose memory it is")
        client = memories.places[0].client if memories.places else 0
    with memories.lock():
        deleted = forget_samples(memories.places, client, number, seal)
    missing = sorted(set(number) - set(deleted))
    if deleted:
        forgotten = ", ".join(map(str, deleted))
        out_console.print(f"client {client} has forgotten {forgotten}", highlight=False)
    if missing:
        raise OfclError(f"client {client} does not remember {', '.join(map(str, missing))}")


@app.command()
def clear(
    directory: Annotated[Path, typer.Argument(help="The folder of a party.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete it.")] = False,
) -> None:
    """Delete all that a party has saved of its runs: memories, models, positions in streams."""
    party = load_party(directory)
    runs = sorted((directory / RUNS).glob("*"))
    with party.used():
        if not yes:
            raise OfclError(
                f"{len(runs)} runs are saved in '{directory}'; one that is not over could not go "
                "on. --yes deletes them"
            )
        for run in runs:
            shutil.rmtree(run)
    out_console.print(f"{party.party} has forgotten {len(runs)} runs", highlight=False)
