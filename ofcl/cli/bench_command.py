"""`ofcl bench`: times a mini-batch on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ofcl.bench.breakdown import PARTS
from ofcl.bench.summary import GROWTH, Measurements, draw, measure
from ofcl.bench.workload import Workload
from ofcl.cli.terminal import out_console, say
from ofcl.errors import OfclError
from ofcl.methods import find_method
from ofcl.settings.files import parse_override


def bench(
    methods: Annotated[str, typer.Option(help="With commas between them.")] = "none,er,cbr,bi",
    memory: Annotated[int, typer.Option(help="Samples a client remembers.")] = 200,
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 5,
    shape: Annotated[str, typer.Option(help="Of a sample; 384 for vectors.")] = "3x32x32",
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    grow: Annotated[
        str, typer.Option(help=f"What to vary: {','.join(GROWTH)}; empty: nothing.")
    ] = "memory",
    seconds: Annotated[float, typer.Option(help="Time for each measurement, at least.")] = 2.0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    against: Annotated[
        Path | None, typer.Option(help="A checkout of the paper's code, to be timed too.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting as key=value; may be repeated.")
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Save the numbers here.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the growth here: .svg, .pdf or .png.")
    ] = None,
) -> None:
    """Time a mini-batch and its parts on random data, and how the time grows with sizes."""
    chosen = [name.strip() for name in methods.split(",") if name.strip()]
    for name in chosen:
        if find_method(name).generative is not None:
            raise OfclError(f"bench is for methods with a memory, not for {name}")
    if not all(side.isdigit() for side in shape.split("x")):
        raise OfclError(f"shape = '{shape}'; expected something like 3x32x32 or 384")
    work = Workload(
        memory=memory,
        clients=clients,
        shape=tuple(int(side) for side in shape.split("x")),
        classes=classes,
        device=device,
        settings=dict(map(parse_override, set_ or [])),
    )
    dimensions = [name.strip() for name in grow.split(",") if name.strip()]
    measured = measure(work, chosen, seconds=seconds, grow=dimensions, against=against, tell=say)
    show(measured)
    if as_json is not None:
        as_json.write_text(json.dumps(measured.to_json(), indent=1) + "\n")
    if plot is not None:
        draw(measured, plot)


def show(measured: Measurements) -> None:
    """Prints the measurements as tables.

    Args:
        measured: The measurements of a benchmark.
    """
    machine = ", ".join(f"{key} {value}" for key, value in measured.machine.items())
    out_console.print(f"{machine}\nMilliseconds of one client:", highlight=False)
    whole = Table("method", "mini-batch and rounds", *PARTS, box=None, pad_edge=False)
    for method, parts in measured.parts.items():
        whole.add_row(
            method, f"{measured.whole[method]:.2f}", *(f"{parts[part]:.2f}" for part in PARTS)
        )
    out_console.print(whole, highlight=False)
    out_console.print(
        "The parts were timed one by one: overlap makes the whole less than their sum. An "
        "evaluation is of 1,000 samples.",
        highlight=False,
    )
    if measured.peer:
        table = Table("method", "ofcl", "the paper's code", "ratio", box=None, pad_edge=False)
        for method, theirs in measured.peer.items():
            ours = measured.whole[method]
            table.add_row(method, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.1f}")
        out_console.print(table, highlight=False)
    for dimension, methods in measured.growth.items():
        values = list(next(iter(methods.values())))
        if not values:
            continue
        table = Table(dimension, *values, box=None, pad_edge=False)
        for method, times in methods.items():
            table.add_row(method, *(f"{ms:.2f}" for ms in times.values()))
        out_console.print(table, highlight=False)
