"""Options that the commands which use a model have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ofcl.assembly.resolve import find_device
from ofcl.bundle.open_bundle import load
from ofcl.bundle.trained_model import TrainedModel
from ofcl.data.options import OnBad
from ofcl.data.sample_forms import TextForm
from ofcl.errors import OfclError, unknown

Model = Annotated[
    Path, typer.Argument(help="A run directory, a bundle (folder or zip), or a party's folder.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Resize = Annotated[bool, typer.Option("--resize", help="Resize images of another size.")]
EmbedderName = Annotated[
    str | None,
    typer.Option(
        help="The embedder or pretrained network, by name or place, if it is not well known."
    ),
]
TextColumn = Annotated[str | None, typer.Option(help="Tables of texts: their column.")]
KeyFile = Annotated[Path | None, typer.Option(help="The key of an encrypted model.")]
OnBadOption = Annotated[str, typer.Option(help="stop or skip: samples that cannot be read.")]


def open_model(
    path: Path,
    device: str,
    *,
    resize: bool,
    embedder: str | None,
    text: str | None,
    key_file: Path | None,
    allow: Iterable[str] | None,
) -> TrainedModel:
    """Opens a model by the options of a command.

    Args:
        path: The path of the model.
        device: The name of the device.
        resize: Whether images of another size are resized.
        embedder: The embedder of texts; None: the one that the model names.
        text: The column of texts; None: the one that it has learned from.
        key_file: The key of an encrypted model.
        allow: Paths to code that the model names and that may be imported.
    """
    found = find_device(device)
    model = load(path, device=found, resize=resize, embedder=embedder, key_file=key_file,
                 allow=allow or ())  # fmt: skip
    samples = model.description.samples
    if text is not None:
        if not isinstance(samples, TextForm):
            raise OfclError(f"--text is for models of texts; this one takes {samples.words()}")
        read = replace(samples, column=text)
        model.description = replace(model.description, samples=read)
    return model


def checked_on_bad(given: str) -> OnBad:
    """Checks the value of `--on-bad`.

    Args:
        given: The value.
    """
    if given == "stop":
        return "stop"
    if given == "skip":
        return "skip"
    raise unknown("value of --on-bad", given, ("stop", "skip"))


def parse_share(given: str, option: str) -> float:
    """Reads a share, such as 5% or 0.05.

    Args:
        given: The text.
        option: The option, for the message.

    >>> parse_share("5%", "--abstain"), parse_share("0.1", "--abstain")
    (0.05, 0.1)
    """
    text = given.strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise OfclError(f"{option} {given}: expected a share between 0 and 1, such as 5% or 0.05")
    return share
