"""`ofcl memory`: what a run or a party remembers of people, and how it is made to forget."""

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
from ofcl.storage.memories import Shelf, remembered, shelves
from ofcl.storage.memories import forget as forget_samples
from ofcl.storage.run_directory import RunDirectory

app = typer.Typer(help="What a run or a party remembers, and how it is made to forget.")

Place = Annotated[Path, typer.Argument(help="A run directory, or the folder of a party.")]
KeyFile = Annotated[Path | None, typer.Option(help="The key with which it was encrypted.")]


@dataclass(frozen=True)
class Kept:
    """Memories, and the labels of what is in them."""

    shelves: list[Shelf]
    labels: dict[Path, tuple[str, ...]]  # by the folder of a shelf
    lock: Callable[[], AbstractContextManager[Any]]


def find(directory: Path, seal: Seal | None) -> Kept:
    """The memories of a run, or of a party in all its runs."""
    if not (directory / PARTY_FILE).exists():
        run = RunDirectory(directory)
        found = shelves(run)
        return Kept(found, dict.fromkeys((s.folder for s in found), read_run(run).labels),
                    run.lock)  # fmt: skip
    party = load_party(directory)
    folders = sorted((directory / RUNS).glob("*"))
    labels = {}
    for folder in folders:
        checkpoint = load_checkpoint(folder, lambda _: None, seal)
        labels[folder] = tuple(checkpoint.state["note"]["labels"]) if checkpoint else ()
    return Kept([Shelf(party.number, folder) for folder in folders], labels, party.used)


@app.command("list")
def list_(
    directory: Place,
    client: Annotated[int | None, typer.Option(help="Only this client's.")] = None,
    key_file: KeyFile = None,
) -> None:
    """List the samples that are remembered: client, number of arrival, class, task."""
    seal = Seal.from_file(key_file) if key_file else None
    kept = find(directory, seal)
    table = Table("client", "id", "class", "task", box=None, pad_edge=False)
    for shelf in kept.shelves:
        labels = kept.labels[shelf.folder]
        for sample in remembered([shelf], seal):
            if client is None or sample.client == client:
                table.add_row(*map(str, (sample.client, sample.number, labels[sample.label],
                                         sample.task)))  # fmt: skip
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
    kept = find(directory, seal)
    if client is None:
        if len({shelf.client for shelf in kept.shelves}) > 1:
            raise OfclError("several clients are here: --client says whose memory it is")
        client = kept.shelves[0].client if kept.shelves else 0
    with kept.lock():
        gone = forget_samples(kept.shelves, client, number, seal)
    missing = sorted(set(number) - set(gone))
    if gone:
        told = ", ".join(map(str, gone))
        out_console.print(f"client {client} has forgotten {told}", highlight=False)
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
