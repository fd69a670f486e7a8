"""What is agreed before and during a run: how samples look, the labels, the settings.

Before a run each party introduces itself: its labels in words and the form of its samples. The
server makes terms of it, which go out with every request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ofcl.data.dataset import Dataset, Kind
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.engines.rejection import Rejected, check_label
from ofcl.errors import OfclError
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings
from ofcl.state import State

MOST_LABELS = 10_000  # that a party may bring
MOST_NUMBERS = 10**7  # of a sample

Way = Literal["dataset", "stream"]
"""Parties learn a dataset, task by task, or a stream as it comes."""


@dataclass(frozen=True)
class Samples:
    """What all parties' samples look like to a model."""

    way: Way
    kind: Kind
    shape: tuple[int, ...]
    mean: tuple[float, ...]  # with which images are normalised
    std: tuple[float, ...]
    embedder: str | None  # of texts

    @classmethod
    def of(cls, dataset: Dataset, way: Way, embedder: str | None = None) -> Samples:
        """The form of a dataset's samples."""
        return cls(way, dataset.kind, dataset.shape, dataset.mean, dataset.std, embedder)

    def differs(self, other: Samples) -> str | None:
        """In what it differs from another form, in words; normalisation can be agreed on."""
        for name in ("way", "kind", "shape", "embedder"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} {getattr(self, name)}, not {getattr(other, name)}"
        return None


@dataclass(frozen=True)
class Introduction:
    """What a party tells of itself before a run."""

    party: str
    labels: tuple[str, ...]  # of a dataset; those of a stream come with it
    samples: Samples


@dataclass(frozen=True)
class Terms:
    """What a party must know to take part in a run."""

    settings: Mapping[str, Any]  # without those that each party decides for itself
    clients: int
    labels: tuple[str, ...]
    base: int  # labels that were there when the run began; tasks are made of them
    samples: Samples


def pack(value: Introduction | Terms) -> State:
    """As plain values."""
    return asdict(value)


def unpack_introduction(state: State) -> Introduction:
    """The inverse of `pack`; nobody is trusted: `Rejected` says what cannot be."""
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
    shape, kind = samples.shape, samples.kind
    if samples.way not in get_args(Way) or kind not in get_args(Kind):
        raise Rejected(f"its samples are {kind!r} of a {samples.way!r}")
    if not all(type(side) is int and side > 0 for side in shape) or not shape:
        raise Rejected(f"its samples have the shape {shape}")
    if math.prod(shape) > MOST_NUMBERS or len(shape) != (3 if kind == "image" else 1):
        raise Rejected(f"its samples have the shape {shape}")
    channels = shape[0] if kind == "image" else 0
    numbers = [*samples.mean, *samples.std]
    if len(numbers) != 2 * channels or not all(
        isinstance(number, float) and math.isfinite(number) for number in numbers
    ):
        raise Rejected("its mean and deviation of channels cannot be")
    return introduction


def unpack_terms(state: State) -> Terms:
    """The inverse of `pack`."""
    return Terms(
        settings=dict(state["settings"]),
        clients=int(state["clients"]),
        labels=tuple(state["labels"]),
        base=int(state["base"]),
        samples=unpack_samples(state["samples"]),
    )


def unpack_samples(state: State) -> Samples:
    """Samples as they were packed."""
    lists = {name: tuple(state[name]) for name in ("shape", "mean", "std")}
    return Samples(state["way"], state["kind"], **lists, embedder=state["embedder"])


def travelling_settings(settings: Settings) -> State:
    """The settings that parties are told: none names a path, or what a party decides itself."""
    values = settings.model_dump(mode="json")
    return {name: value for name, value in values.items() if name not in AT_PARTY}


def agreed(introductions: Mapping[str, Introduction]) -> tuple[tuple[str, ...], Samples]:
    """The labels of all parties, the first party's first, and the form of their samples."""
    first, *_ = introductions.values()
    labels: dict[str, None] = {}
    for name, introduction in introductions.items():
        if difference := introduction.samples.differs(first.samples):
            raise OfclError(f"{name} has other samples than {first.party}: {difference}")
        labels |= dict.fromkeys(introduction.labels)
    return tuple(labels), first.samples


class LabelSpace(Vocabulary):
    """The vocabulary of a federation; it points out labels that look like one another.

    >>> labels = LabelSpace(("Cat",), print)
    >>> labels.place("c at")
    the labels 'Cat' and 'c at' differ in case or spaces alone; they are learned as two classes
    1
    """

    def __init__(self, labels: Sequence[str], tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell
        self._spelled: dict[str, str] = {}
        for label in labels:
            self.place(label)

    def place(self, label: str) -> int:
        """The place of a label."""
        if label not in self:
            plain = "".join(label.casefold().split())
            if plain in self._spelled:
                self._tell(
                    f"the labels '{self._spelled[plain]}' and '{label}' differ in case or spaces "
                    "alone; they are learned as two classes"
                )
            self._spelled.setdefault(plain, label)
        return super().place(label)
