"""What happens in a run, as values that the caller prints, saves or draws."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

Hits = list[list[list[int]]]
"""For each task seen, for each of its classes: [class, right predictions, samples]. They add up."""


@dataclass(frozen=True)
class Learned:
    """A client has learned mini-batches; loss and right predictions are from before it did."""

    client: int
    task: int
    batches: int  # how many since this client's last event
    samples: int
    loss: float  # sum over the samples
    correct: int


@dataclass(frozen=True)
class Round:
    """The server has averaged the models of these clients, and they have taken the result."""

    round: int
    clients: list[int]
    samples: list[int]
    bytes_sent: int  # by the clients, together
    bytes_received: int


@dataclass(frozen=True)
class Evaluated:
    """A client has finished a task and was tested on its own test data of all tasks so far."""

    client: int
    task: int
    test: Hits
    validation: Hits
    global_test: Hits  # the global model on the same data


@dataclass(frozen=True)
class Remembered:
    """What a client's memory holds; told now and then, and at the end of each task."""

    client: int
    task: int
    batches: int  # mini-batches that the client has learned so far
    held: list[list[int]]  # [task in which they came, class, samples]


@dataclass(frozen=True)
class TaskEnded:
    """Every client has finished a task, and the server has done what its method does then."""

    task: int
    bytes_received: int  # by the clients, together, besides the model


@dataclass(frozen=True)
class Appeared:
    """A client's stream brought a class that nobody had announced; it got the next place."""

    client: int
    label: str
    place: int


@dataclass(frozen=True)
class Skipped:
    """A sample of a client's stream could not be used and was left out."""

    client: int
    source: str
    row: int  # −1: of the file as a whole
    problem: str


Event = Learned | Round | Evaluated | Remembered | TaskEnded | Appeared | Skipped

_KINDS: dict[str, type[Event]] = {
    kind.__name__.lower(): kind
    for kind in (Learned, Round, Evaluated, Remembered, TaskEnded, Appeared, Skipped)
}


def to_json(event: Event) -> dict[str, Any]:
    """An event as plain values.

    >>> to_json(Round(1, [0, 1], [10, 10], 8, 8))["event"]
    'round'
    """
    return {"event": type(event).__name__.lower(), **asdict(event)}


def from_json(value: dict[str, Any]) -> Event:
    """The inverse of `to_json`; what else was written beside it is left out."""
    kind = _KINDS[value["event"]]
    return kind(**{name: value[name] for name in kind.__dataclass_fields__})
