"""What memories hold: the samples themselves, how uncertain they are and how old."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ofcl.assembly import build
from ofcl.data.files.text import cached
from ofcl.data.loading import read_raw
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.selection import train_and_test
from ofcl.errors import OfclError
from ofcl.methods.parts import shown
from ofcl.report.recorded_runs import RunView
from ofcl.state import State
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.uncertainty.scores import SCORES

NUMBERS = 8  # of a vector that are shown
CHARACTERS = 240  # of a text
PAGE = 600  # samples of a run that are shown, at most
LARGEST = 128  # pixels of a picture's side

Texts = list[list[str]]
"""What came to each client, in its order."""


@dataclass(frozen=True)
class Sample:
    """A remembered sample."""

    number: int  # of its arrival in the client's stream, from 0
    label: str
    task: int
    age: int  # samples that have come since
    uncertainty: float | None
    picture: str = ""  # PNG as a data URI
    text: str = ""  # or what it says, or its first numbers


@dataclass(frozen=True)
class Remembered:
    """A client's memory as the last checkpoint has it."""

    client: int
    size: int
    samples: list[Sample]  # a part of them, by class
    kept: list[float]  # uncertainty, of all of which it is known
    dropped: list[float]  # of the last that went


def read_memories(run: RunView, most: int, tell: Callable[[str], None] = print) -> list[Remembered]:
    """The memories of a run's clients, with at most so many samples of each."""
    try:
        checkpoint = load_checkpoint(run.directory.checkpoints, tell)
    except OfclError as error:  # the rest of the run can still be shown
        tell(str(error))
        return []
    if checkpoint is None:
        return []
    clients = checkpoint.state["engine"].get("clients") or _elsewhere(run)
    states = [client["learner"].get("memory") for client in clients]
    with_memory = [(client, state) for client, state in enumerate(states) if state]
    texts = _texts(run) if with_memory else None
    # A page of very many clients shows less of each.
    most = min(most, max(PAGE // max(len(with_memory), 1), 1)) if most else 0
    return [_read(run, client, state, most, texts) for client, state in with_memory]


def _elsewhere(run: RunView) -> list[State]:
    """The clients that were not in one process with the server, from their own folders."""
    folders = run.directory.client_folders(run.settings.clients)
    found = [load_checkpoint(folder, lambda _: None) for folder in folders]
    return [checkpoint.state["client"] for checkpoint in found if checkpoint is not None]


def _read(run: RunView, client: int, state: State, most: int, texts: Texts | None) -> Remembered:
    table: dict[str, Tensor] = state["samples"]
    sign = (1 if run.settings.keep == "bottom" else -1) if run.settings.method in SCORES else None
    uncertainty = (sign or 0) * table["key"].double()
    known = ~uncertainty.isnan() if sign else torch.zeros_like(table["y"], dtype=torch.bool)
    chosen = _some_of_each(table["y"].numpy(), table["id"].numpy(), most)
    pictures, said = _look(run, state["x"][chosen], table["id"][chosen], client, texts)
    samples = [
        Sample(
            number=int(table["id"][row]),
            label=run.labels[int(table["y"][row])],
            task=int(table["task"][row]),
            age=int(state["arrived"]) - 1 - int(table["id"][row]),
            uncertainty=float(uncertainty[row]) if known[row] else None,
            picture=picture,
            text=text,
        )
        for row, picture, text in zip(chosen.tolist(), pictures, said, strict=True)
    ]
    dropped = (sign or 0) * state.get("dropped", torch.empty(0)).double()
    return Remembered(
        client=client,
        size=len(table["y"]),
        samples=samples,
        kept=uncertainty[known].tolist(),
        dropped=dropped.tolist(),
    )


def _some_of_each(y: np.ndarray, number: np.ndarray, most: int) -> np.ndarray:
    """Rows of samples, by class and then age: as many of each class as there is room for."""
    order = np.lexsort((number, y))
    if len(order) <= most:
        return order
    rank = np.zeros(len(y), dtype=int)
    for c in np.unique(y):
        of_class = order[y[order] == c]
        rank[of_class] = np.arange(len(of_class))
    first = np.lexsort((number, y, rank))[:most]
    return first[np.lexsort((number[first], y[first]))]


def _look(
    run: RunView, x: Tensor, numbers: Tensor, client: int, texts: Texts | None
) -> tuple[list[str], list[str]]:
    """Pictures of samples, and words: one of the two for each."""
    nothing = [""] * len(x)
    if run.form.get("kind") == "image":
        return [as_png(image) for image in shown(x, run.form["mean"], run.form["std"])], nothing
    found = _found(run, x, numbers.tolist(), texts[client]) if texts is not None else None
    if found is not None:
        return nothing, [t[:CHARACTERS] + ("…" if len(t) > CHARACTERS else "") for t in found]
    return nothing, [_numbers(sample.flatten()) for sample in x]


def _found(run: RunView, x: Tensor, numbers: list[int], texts: list[str]) -> list[str] | None:
    """The texts of these samples; None if they are others by now: their vectors would tell."""
    if max(numbers, default=-1) >= len(texts):
        return None
    found = [texts[number] for number in numbers]
    try:
        vectors = cached(found, run.settings.embedder, build.build_reading(run.settings).root)
    except OfclError:  # the embedder is not here any more
        return None
    pairs = zip(vectors, x.numpy(), strict=True)
    same = (vector is not None and np.allclose(vector, own) for vector, own in pairs)
    return found if all(same) else None


def _numbers(sample: Tensor) -> str:
    more = " …" if len(sample) > NUMBERS else ""
    return " ".join(f"{value:.3g}" for value in sample[:NUMBERS].tolist()) + more


def as_png(image: Tensor) -> str:
    """An image (channels, height, width) with values from 0 to 1 as a data URI."""
    from PIL import Image

    pixels = (image * 255).round().byte().numpy()
    mode = pixels[0] if len(pixels) < 3 else pixels[:3].transpose(1, 2, 0)
    picture = Image.fromarray(np.ascontiguousarray(mode))
    if max(picture.size) > LARGEST:
        picture.thumbnail((LARGEST, LARGEST))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def _texts(run: RunView) -> Texts | None:
    """The texts of each client in the order in which they came; None: not texts, or not there.

    A memory holds vectors. The texts are read from the dataset again, and found by their number.
    """
    settings = run.settings
    source, how = DATASETS.get(settings.dataset), build.build_reading(settings)
    missing = source is not None and not source.present(how.root)  # nothing is downloaded here
    if settings.streams or missing or run.form.get("kind") != "vector":
        return None
    try:
        raw = read_raw(settings.dataset, how, lambda _: None)
        if raw.content != "texts":
            return None
        train, test = train_and_test(raw, how)
        shares = build.deal(settings, train.y, test.y, len(raw.labels), None)
    except OfclError:  # the data are not here any more
        return None
    return [[train.samples[row] for row in build.arrivals(settings, share)] for share in shares]


def uncertainties(memories: Sequence[Remembered]) -> dict[str, list[float]]:
    """Of kept and of dropped samples, of all clients; empty where nobody scores."""
    found: dict[str, Any] = {
        "kept": [value for memory in memories for value in memory.kept],
        "dropped": [value for memory in memories for value in memory.dropped],
    }
    return found if found["kept"] or found["dropped"] else {}
