"""`ofcl memory`: what a run remembers of people, and how it is made to forget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ofcl.cli.terminal import out_console
from ofcl.erasure import forget as forget_samples
from ofcl.erasure import remembered
from ofcl.errors import OfclError
from ofcl.report.reading import read_run
from ofcl.runs import RunDirectory

app = typer.Typer(help="What a run remembers, and how it is made to forget.")

Run = Annotated[Path, typer.Argument(help="A run directory.")]


@app.command("list")
def list_(
    directory: Run,
    client: Annotated[int | None, typer.Option(help="Only this client's.")] = None,
) -> None:
    """List the samples that are remembered: client, number of arrival, class, task."""
    run = RunDirectory(directory)
    labels = read_run(run).labels
    table = Table("client", "id", "class", "task", box=None, pad_edge=False)
    for sample in remembered(run):
        if client is None or sample.client == client:
            table.add_row(*map(str, (sample.client, sample.number, labels[sample.label],
                                     sample.task)))  # fmt: skip
    out_console.print(table, highlight=False)


@app.command()
def forget(
    directory: Run,
    client: Annotated[int, typer.Option(help="The client that remembers them.")],
    number: Annotated[list[int], typer.Option("--id", help="Of the sample; may be repeated.")],
) -> None:
    """Delete samples from a client's memory, in every checkpoint of a run that is not going on."""
    gone = forget_samples(RunDirectory(directory), client, number)
    missing = sorted(set(number) - set(gone))
    if gone:
        told = ", ".join(map(str, gone))
        out_console.print(f"client {client} has forgotten {told}", highlight=False)
    if missing:
        raise OfclError(f"client {client} does not remember {', '.join(map(str, missing))}")
