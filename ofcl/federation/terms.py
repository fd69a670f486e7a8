"""The terms of a run: how samples look, the labels, the settings.

Before a run each party introduces itself: with its labels in words, and the form of its samples.
From the introductions the server makes the terms, which go out with every request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ofcl.data.dataset import Dataset, Kind
from ofcl.engines.rejection import Rejected, check_label
from ofcl.errors import OfclError
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings
from ofcl.state import State

MOST_LABELS = 10_000  # labels that a party may bring
MOST_NUMBERS = 10**7  # numbers in one sample

Way = Literal["dataset", "stream"]
"""Parties learn a dataset, task by task, or a stream as it comes."""


@dataclass(frozen=True)
class Samples:
    """The form of all parties' samples, as a model needs to know it.

    Args:
        way: Whether the samples come from datasets or from streams.
        kind: Whether the samples are images or vectors; tables and embedded texts are vectors.
        shape: The shape of one sample.
        mean: The mean of each channel, by which images are normalised; empty for vectors.
        std: The deviation of each channel, by which images are normalised; empty for vectors.
        embedder: The name of the embedder of texts or images, of images with a checksum of its
            weights; None: the samples are not embedded.
    """

    way: Way
    kind: Kind
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    embedder: str | None

    @classmethod
    def of(cls, dataset: Dataset, way: Way, embedder: str | None = None) -> Samples:
        """Describes the form of a dataset's samples.

        Args:
            dataset: The dataset; of a stream, a dataset without samples that has their form.
            way: Whether the samples come from a dataset or from a stream.
            embedder: The name of the embedder; None: the samples are not embedded.
        """
        return cls(way, dataset.kind, dataset.shape, dataset.mean, dataset.std, embedder)

    def differs(self, other: Samples) -> str | None:
        """Says in words how this form differs from another; None: the samples fit together.

        The normalisation may differ: all parties take that of the first party.

        Args:
            other: The other form.
        """
        for name in ("way", "kind", "shape", "embedder"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} {getattr(self, name)}, not {getattr(other, name)}"
        return None


@dataclass(frozen=True)
class Introduction:
    """A party's introduction of itself before a run.

    Args:
        party: The name of the party.
        labels: The labels of the party's dataset; none for a stream, whose labels come later.
        samples: The form of the party's samples.
    """

    party: str
    labels: tuple[str, ...]
    samples: Samples


@dataclass(frozen=True)
class Terms:
    """All that a party must know to take part in a run.

    Args:
        settings: The run's settings, without those that each party decides for itself.
        clients: The number of parties.
        labels: The labels of all parties. The place of a label in this list is its class.
        base: How many of the labels were known when the run began; tasks are made of these.
        samples: The form of all parties' samples.
    """

    settings: Mapping[str, Any]
    clients: int
    labels: tuple[str, ...]
    base: int
    samples: Samples


def pack(value: Introduction | Terms) -> State:
    """Converts an introduction or terms to plain values, to be sent.

    Args:
        value: The introduction, or the terms.
    """
    return asdict(value)


def unpack_introduction(state: State) -> Introduction:
    """Reads an introduction that `pack` has packed, and checks it: no party is trusted.

    Args:
        state: The plain values that a party has sent.

    Raises:
        Rejected: If a value is missing or cannot be right; the error says which.
    """
    try:
        samples = unpack_samples(state["samples"])
        introduction = Introduction(state["party"], tuple(state["labels"]), samples)
    except (KeyError, TypeError, ValueError) as error:
        raise Rejected(f"its introduction cannot be read ({error})") from None
    if not isinstance(state["labels"], list) or not isinstance(introduction.party, str):
        raise Rejected("its introduction is of other types")
    if len(introduction.labels) > MOST_LABELS:
        raise Rejected(f"it brings {len(introduction.labels)} labels")
    for label in introduction.labels:
        check_label(label)
    _check_samples(samples)
    return introduction


def _check_samples(samples: Samples) -> None:
    """Rejects a form of samples that cannot be right."""
    shape, kind = samples.shape, samples.kind
    if samples.way not in get_args(Way) or kind not in get_args(Kind):
        raise Rejected(f"its samples are {kind!r} of a {samples.way!r}")
    if not all(type(side) is int and side > 0 for side in shape) or not shape:
        raise Rejected(f"its samples have the shape {shape}")
    if math.prod(shape) > MOST_NUMBERS or len(shape) != (3 if kind == "image" else 1):
        raise Rejected(f"its samples have the shape {shape}")
    channels = shape[0] if kind == "image" else 0
    numbers = [*samples.mean, *samples.std]
    finite = all(isinstance(number, float) and math.isfinite(number) for number in numbers)
    if len(numbers) != 2 * channels or not finite:
        raise Rejected("its mean and deviation of channels cannot be")


def unpack_terms(state: State) -> Terms:
    """Reads terms that `pack` has packed.

    Args:
        state: The plain values that the server has sent.
    """
    return Terms(
        settings=dict(state["settings"]),
        clients=int(state["clients"]),
        labels=tuple(state["labels"]),
        base=int(state["base"]),
        samples=unpack_samples(state["samples"]),
    )


def unpack_samples(state: State) -> Samples:
    """Reads the form of samples from plain values.

    Args:
        state: The value of each field of `Samples`, by its name.
    """
    lists = {name: tuple(state[name]) for name in ("shape", "mean", "std")}
    return Samples(state["way"], state["kind"], **lists, embedder=state["embedder"])


def travelling_settings(settings: Settings) -> State:
    """Chooses the settings that are sent to parties.

    Paths, and all else that each party decides for itself (`AT_PARTY`), are left out.

    Args:
        settings: The settings of the run.
    """
    values = settings.model_dump(mode="json")
    return {name: value for name, value in values.items() if name not in AT_PARTY}


def agree(introductions: Mapping[str, Introduction]) -> tuple[tuple[str, ...], Samples]:
    """Makes one list of labels, and one form of samples, from the parties' introductions.

    Args:
        introductions: The introductions by the names of the parties.

    Returns:
        The labels of all parties, the first party's first, and the first party's form of samples.

    Raises:
        OfclError: If a party has samples of another form.
    """
    first, *_ = introductions.values()
    labels: dict[str, None] = {}
    for name, introduction in introductions.items():
        if difference := introduction.samples.differs(first.samples):
            raise OfclError(f"{name} has other samples than {first.party}: {difference}")
        labels |= dict.fromkeys(introduction.labels)
    return tuple(labels), first.samples
