"""`ofcl data`: lists the named datasets, downloads and checks them; inspects a user's own files."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from ofcl.assembly.dealing import build_reading
from ofcl.cli.progress import track
from ofcl.cli.terminal import err_console, out_console, say, warn
from ofcl.data.files.images import image_sizes
from ofcl.data.loading import load_dataset, read_raw
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.options import Reading, data_root
from ofcl.data.raw import Raw
from ofcl.data.table_code import fit_codes
from ofcl.data.tasks import usual_tasks
from ofcl.errors import OfclError, unknown
from ofcl.settings.files import parse_override
from ofcl.settings.layers import make_settings

app = typer.Typer(help="The data: what there is, what is here, what is in yours.")

Root = Annotated[
    Path | None, typer.Option("--data-root", help="Folder of the named datasets (OFCL_DATA).")
]
Name = Annotated[str, typer.Argument(help="A dataset's name (ofcl data list).")]
Embedder = Annotated[str, typer.Option(help="e5-small-v2, minilm, or a model's name or folder.")]

CLASSES_SHOWN = 20
OFFLINE = "minilm"  # the embedder whose weights come as a package
IMAGES_LOOKED_AT = 1000


@app.command("list")
def list_(root: Root = None) -> None:
    """List the named datasets, and which are here."""
    folder = root or data_root()
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "train", "test", "classes", "licence", "here"):
        right = heading in ("train", "test", "classes")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for name, source in DATASETS.items():
        here = "built in" if not source.files else "yes" if source.present(folder) else "no"
        table.add_row(name, source.kind, f"{source.train:,}", f"{source.test:,}",
                      str(source.classes), source.licence, here)  # fmt: skip
    out_console.print(table)
    say(f"data folder: {folder}")


@app.command()
def prepare(name: Name, root: Root = None, embedder: Embedder = "e5-small-v2") -> None:
    """Download a dataset if it is not here; of texts, make the vectors too."""
    how = Reading(root=root or data_root(), embedder=embedder, track=track)
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    source = DATASETS[name]
    if source.kind == "text":  # only the part that runs use is embedded
        for protocol in ("sound", "published"):
            usual = build_reading(make_settings({"dataset": name, "protocol": protocol}), track)
            load_dataset(name, replace(how, subset=usual.subset), say)
    else:
        source.prepare(name, how.root, say)
    say(f"{name} is in {how.root}")


@app.command()
def check(name: Name, root: Root = None) -> None:
    """Read a dataset's files and compare their numbers with the official ones."""
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    source, folder = DATASETS[name], root or data_root()
    if not source.present(folder):
        raise OfclError(f"{name} is not in '{folder}'; fetch it with: ofcl data prepare {name}")
    raw = source.read(folder)
    counts = {
        "classes": (len(np.unique(raw.train.y)), source.classes),
        "train": (len(raw.train), source.train),
        "test": (len(raw.test or ()), source.test),
    }
    wrong = {what: pair for what, pair in counts.items() if pair[0] != pair[1]}
    for what, (here, official) in wrong.items():
        warn(f"{name}: {here:,} {what}, officially {official:,}")
    if wrong:
        raise typer.Exit(1)
    say(f"{name}: {counts['train'][0]:,} train, {counts['test'][0]:,} test, "
        f"{source.classes} classes: counts as published")  # fmt: skip


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="A file, a folder, hf:ID, or a dataset's name.")],
    label: Annotated[str | None, typer.Option(help="Column of the labels.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the texts.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="A column to learn from; may be repeated, or a,b,….")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be repeated, or a,b,….")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Images: side in pixels.")] = None,
    embedder: Annotated[str | None, typer.Option(help="Texts: the embedder.")] = None,
    on_bad: Annotated[
        str | None, typer.Option(help="stop or skip: samples that cannot be read.")
    ] = None,
    root: Root = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of ofcl run as key=value.")
    ] = None,
) -> None:
    """Show what would be read: kind, columns, classes with counts, a suggested task split."""
    named = {
        "label": label, "text": text, "columns": ",".join(columns or ()) or None,
        "drop": ",".join(drop or ()) or None, "image_size": image_size, "embedder": embedder,
        "on_bad": on_bad, "data_root": str(root) if root else None,
    }  # fmt: skip
    made = make_settings(
        {"dataset": path},
        {name: value for name, value in named.items() if value is not None},
        dict(map(parse_override, set_ or [])),
    )
    how = build_reading(made, track)
    raw = read_raw(path, how, say)
    sizes = set()
    if raw.content == "image files":
        sizes = image_sizes(list(raw.train.samples)[:IMAGES_LOOKED_AT])
    _describe(raw, sizes)
    _classes(raw)
    _suggest(raw, path, how, mixed=len(sizes) > 1)


def _describe(raw: Raw, sizes: set[tuple[int, int]]) -> None:
    """Prints the kind of the samples, their sizes and how many there are.

    Args:
        raw: The data, as they were read.
        sizes: The heights and widths of images; empty if the samples are no image files.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("kind", raw.content)
    if sizes:
        small, large = min(sizes), max(sizes)
        to = "" if small == large else f" to {large[0]} × {large[1]}"
        table.add_row("size", f"{small[0]} × {small[1]}{to}")
    for what, value in raw.details.items():
        table.add_row(what, Text(value))
    for code in fit_codes(raw.codes, raw.train.samples) if raw.codes else ():
        table.add_row(Text(f"  {code.name}"), Text(code.words()))
    table.add_row("train", f"{len(raw.train):,}")
    table.add_row("test", "split from train" if raw.test is None else f"{len(raw.test):,}")
    out_console.print(table, highlight=False)
    for note in raw.notes:
        warn(note)


def _classes(raw: Raw) -> None:
    """Prints the number of samples of each class, the largest first; of many classes only some."""
    table = Table(box=None, pad_edge=False)
    table.add_column("class")
    table.add_column("train", justify="right")
    if raw.test is not None:
        table.add_column("test", justify="right")
    parts = [raw.train] + ([raw.test] if raw.test is not None else [])
    counts = [np.bincount(part.y, minlength=len(raw.labels)) for part in parts]
    order = np.argsort(-counts[0], kind="stable")
    for c in order[:CLASSES_SHOWN]:
        table.add_row(Text(raw.labels[c]), *(f"{n[c]:,}" for n in counts))
    out_console.print(table, highlight=False)
    if len(order) > CLASSES_SHOWN:
        say(f"… and {len(order) - CLASSES_SHOWN} classes more")


def _suggest(raw: Raw, path: str, how: Reading, mixed: bool) -> None:
    """Prints a command that would run on these data.

    Args:
        raw: The data, as they were read.
        path: Where the data are.
        how: The options with which they were read.
        mixed: Whether images have different sizes.
    """
    classes = len(np.unique(raw.train.y))
    tasks = usual_tasks(classes)
    options = [f"--dataset {shlex.quote(path)}"]
    options += [f"--label {shlex.quote(how.label)}"] if how.label else []
    options += [f"--text {shlex.quote(how.text)}"] if how.text else []
    options += [f"--columns {shlex.quote(','.join(how.columns))}"] if how.columns else []
    options += [f"--drop {shlex.quote(','.join(how.drop))}"] if how.drop else []
    options += ["--on-bad skip"] if how.on_bad == "skip" else []
    side = how.image_size or (32 if mixed else None)
    options += [f"--image-size {side}"] if side else []
    if raw.content == "texts":
        options += [f"--embedder {shlex.quote(how.embedder)}"]
        if how.embedder != OFFLINE:
            say(f"{how.embedder} is downloaded once; --embedder {OFFLINE} needs no network")
    err_console.print(
        f"suggested: {tasks} task{'s' if tasks > 1 else ''} of about {classes / tasks:.3g} classes "
        f"of {classes}\n  ofcl run {' '.join(options)} --tasks {tasks}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
