"""Events: what a run yields while it goes, as values that the caller prints, saves or draws."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

Hits = list[list[list[int]]]
"""Test results, for each task and each of its classes: [class, right predictions, samples].

The counts of several clients can be added up.
"""

Confusions = list[list[int]]
"""Test results as the cells of a confusion matrix: [class, predicted class, samples].

Cells without samples are left out. The counts of several clients can be added up.
"""


@dataclass(frozen=True)
class Learned:
    """A client has learned mini-batches.

    Loss and predictions are those of the model just before it learned each mini-batch.
    """

    client: int
    task: int
    batches: int  # since this client's last event of this kind
    samples: int
    loss: float  # sum over the samples
    correct: int


@dataclass(frozen=True)
class Round:
    """The server has averaged the models of some clients, and they have taken the result."""

    round: int
    clients: list[int]
    samples: list[int]  # that each of these clients has learned in its current task
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
    # Of the global model, after the last task; empty before, and where it is not told.
    confusions: Confusions = field(default_factory=list)


@dataclass(frozen=True)
class Remembered:
    """The contents of a client's memory.

    Recorded every so many mini-batches, and at the end of each task.
    """

    client: int
    task: int
    batches: int  # mini-batches that the client has learned so far
    held: list[list[int]]  # [task in which the samples came, class, number of samples]


@dataclass(frozen=True)
class TaskEnded:
    """Every client has finished a task; the server has trained its generator, if it has one."""

    task: int
    bytes_received: int  # by the clients, together, besides the model


@dataclass(frozen=True)
class Appeared:
    """A client's stream has brought a new class.

    Its label has got the next place in the vocabulary; this place is the class's number.
    """

    client: int
    label: str
    place: int


@dataclass(frozen=True)
class Skipped:
    """A sample of a client's stream could not be read and was left out."""

    client: int
    source: str
    row: int  # −1: the file as a whole
    problem: str


Event = Learned | Round | Evaluated | Remembered | TaskEnded | Appeared | Skipped

_KINDS: dict[str, type[Event]] = {
    kind.__name__.lower(): kind
    for kind in (Learned, Round, Evaluated, Remembered, TaskEnded, Appeared, Skipped)
}


def to_json(event: Event) -> dict[str, Any]:
    """Turns an event into plain values, as in a line of `events.jsonl`.

    Args:
        event: The event.

    >>> to_json(Round(1, [0, 1], [10, 10], 8, 8))["event"]
    'round'
    """
    return {"event": type(event).__name__.lower(), **asdict(event)}


def from_json(value: dict[str, Any]) -> Event:
    """Turns plain values back into an event.

    Args:
        value: The values that `to_json` returned. Additional values, such as the time, are ignored.
    """
    kind = _KINDS[value["event"]]
    # Events of earlier versions lack fields that have a default now.
    return kind(**{name: value[name] for name in kind.__dataclass_fields__ if name in value})
