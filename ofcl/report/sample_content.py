"""The content of remembered samples to look at: a picture, a text, or the first numbers."""

from __future__ import annotations

import base64
import io

import numpy as np
from torch import Tensor

from ofcl.assembly.dealing import arrivals, build_reading, deal
from ofcl.data.files.embeddings import cached_vectors
from ofcl.data.loading import read_raw
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.selection import train_and_test
from ofcl.errors import OfclError
from ofcl.methods.parts import shown
from ofcl.report.recorded_runs import RunView

NUMBERS = 8  # of a vector that are shown
CHARACTERS = 240  # of a text that are shown
LARGEST = 128  # pixels of a picture's side

ClientTexts = list[list[str]]
"""The texts that came to each client, in the order of their arrival."""


def as_pictures(run: RunView, x: Tensor) -> list[str] | None:
    """Turns samples into pictures.

    Args:
        run: The run that remembers the samples.
        x: The samples, (n, channels, height, width).

    Returns:
        A PNG as a data URI for each sample; None if the run's samples are not images.
    """
    if run.form.get("kind") != "image":
        return None
    return [as_png(image) for image in shown(x, run.form["mean"], run.form["std"])]


def as_words(run: RunView, x: Tensor, numbers: list[int], texts: list[str] | None) -> list[str]:
    """Returns, for samples that are vectors, the texts they were made of, or their first numbers.

    Args:
        run: The run that remembers the samples.
        x: The samples (n, length).
        numbers: The number of each sample's arrival in its client's stream, from 0.
        texts: The texts that came to the client (`read_texts`); None: samples are no texts, or
            these are unknown.
    """
    chosen = _matching_texts(run, x, numbers, texts) if texts is not None else None
    if chosen is None:
        return [_first_numbers(sample.flatten()) for sample in x]
    return [t[:CHARACTERS] + ("…" if len(t) > CHARACTERS else "") for t in chosen]


def as_png(image: Tensor) -> str:
    """Returns an image as PNG in a data URI, made smaller if it is large.

    Args:
        image: The image (channels, height, width), with values from 0 to 1.
    """
    from PIL import Image

    pixels = (image * 255).round().byte().numpy()
    grey_or_colour = pixels[0] if len(pixels) < 3 else pixels[:3].transpose(1, 2, 0)
    picture = Image.fromarray(np.ascontiguousarray(grey_or_colour))
    if max(picture.size) > LARGEST:
        picture.thumbnail((LARGEST, LARGEST))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def read_texts(run: RunView) -> ClientTexts | None:
    """Reads the texts of each client from the dataset again, as a memory has only their vectors.

    Args:
        run: The run.

    Returns:
        The texts; None if the run's samples are not texts, or its dataset is not on this machine.
    """
    settings = run.settings
    source, how = DATASETS.get(settings.dataset), build_reading(settings)
    missing = source is not None and not source.present(how.root)  # nothing is downloaded here
    if settings.streams or missing or run.form.get("kind") != "vector":
        return None
    try:
        raw = read_raw(settings.dataset, how, lambda _: None)
        if raw.content != "texts":
            return None
        train, test = train_and_test(raw, how)
        shares = deal(settings, train.y, test.y, len(raw.labels), None)
    except OfclError:  # the data are not here any more
        return None
    return [[train.samples[row] for row in arrivals(settings, share)] for share in shares]


def _matching_texts(
    run: RunView, x: Tensor, numbers: list[int], texts: list[str]
) -> list[str] | None:
    """Finds the texts of remembered samples, and checks that their vectors are still the same.

    Args:
        run: The run, whose settings name the embedder.
        x: The remembered vectors (n, length).
        numbers: The number of each sample's arrival in its client's stream, from 0.
        texts: The texts that came to the client, in order.

    Returns:
        The text of each sample; None if vectors differ, or cannot be computed on this machine.
    """
    if max(numbers, default=-1) >= len(texts):
        return None
    chosen = [texts[number] for number in numbers]
    try:
        vectors = cached_vectors(chosen, run.settings.embedder, build_reading(run.settings).root)
    except OfclError:  # the embedder is not here any more
        return None
    pairs = zip(vectors, x.numpy(), strict=True)
    same = (vector is not None and np.allclose(vector, saved) for vector, saved in pairs)
    return chosen if all(same) else None


def _first_numbers(sample: Tensor) -> str:
    """Returns the first numbers of a vector as text."""
    more = " …" if len(sample) > NUMBERS else ""
    return " ".join(f"{value:.3g}" for value in sample[:NUMBERS].tolist()) + more
