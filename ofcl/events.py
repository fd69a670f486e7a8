"""Events: what a run yields while it goes, as values that the caller prints, saves or draws."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, get_args

Hits = list[list[list[int]]]
"""Test results, for each task and each of its classes: [class, right predictions, samples].

The counts of several clients can be added up.
"""

Confusions = list[list[int]]
"""Test results as the cells of a confusion matrix: [class, predicted class, samples].

Cells without samples are left out. The counts of several clients can be added up.
"""


GLOBAL_MODEL = -1
"""Stands for the global model where a number names the client whose model it is."""


@dataclass(frozen=True)
class Learned:
    """A client has learned mini-batches.

    Loss and predictions are those of the model just before it learned each mini-batch.

    Args:
        client: The number of the client.
        task: The number of the client's task, from 0.
        batches: The mini-batches since this client's last event of this kind.
        samples: The samples of these mini-batches.
        loss: The sum of the losses of these samples.
        correct: How many of these samples were predicted rightly.
    """

    client: int
    task: int
    batches: int
    samples: int
    loss: float
    correct: int


@dataclass(frozen=True)
class Round:
    """The server has averaged the models of some clients, and they have taken the result.

    Args:
        round: The number of the round, from 1.
        clients: The numbers of the clients that took part.
        samples: How many samples each of these clients has learned in its current task.
        bytes_sent: Bytes that these clients have sent, together.
        bytes_received: Bytes that these clients have received, together.
        ages: Buffered rounds: how many rounds old the model was that each client had learned from.
    """

    round: int
    clients: list[int]
    samples: list[int]
    bytes_sent: int
    bytes_received: int
    ages: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Arrived:
    """Buffered rounds: the update of a client has come, and the client has gone on.

    Args:
        client: The number of the client.
        round: How many rounds there had been.
    """

    client: int
    round: int


@dataclass(frozen=True)
class Evaluated:
    """A client has finished a task and was tested on its own test data of all tasks so far.

    Args:
        client: The number of the client.
        task: The number of the task, from 0.
        test: The client's model on its test samples.
        validation: The client's model on its validation samples.
        global_test: The global model on the client's test samples.
        confusions: The confusions of the global model on the test samples, after the last task;
            empty after the other tasks, and where they stay with the client.
    """

    client: int
    task: int
    test: Hits
    validation: Hits
    global_test: Hits
    confusions: Confusions = field(default_factory=list)


@dataclass(frozen=True)
class Remembered:
    """The contents of a client's memory.

    Recorded every so many mini-batches, and at the end of each task.

    Args:
        client: The number of the client.
        task: The number of the client's task, from 0.
        batches: The mini-batches that the client has learned so far.
        held: Rows of [task in which samples came, class of the samples, number of samples].
    """

    client: int
    task: int
    batches: int
    held: list[list[int]]


@dataclass(frozen=True)
class TaskEnded:
    """Every client has finished a task; the server has trained its generator, if it has one.

    Args:
        task: How many tasks have ended for all clients so far.
        bytes_received: Bytes that all clients have received besides the model, together.
        bytes_sent: Bytes that all clients have sent for it, together: features of their memories.
    """

    task: int
    bytes_received: int
    bytes_sent: int = 0


@dataclass(frozen=True)
class Appeared:
    """A client's stream has brought a new class.

    Args:
        client: The number of the client.
        label: The label of the class.
        place: The label's place in the vocabulary, which is the number of the class.
    """

    client: int
    label: str
    place: int


@dataclass(frozen=True)
class Skipped:
    """A sample of a client's stream could not be read and was left out.

    Args:
        client: The number of the client.
        source: The file or stream that the sample came from.
        row: The number of its row there; −1: the file as a whole was left out.
        problem: Why the sample could not be read.
    """

    client: int
    source: str
    row: int
    problem: str


@dataclass(frozen=True)
class Halted:
    """A client's stream has met damage; the client waits until it is mended, the others go on.

    Args:
        client: The number of the client.
        problem: The damage, and where it is.
    """

    client: int
    problem: str


@dataclass(frozen=True)
class Changed:
    """Settings of the run have changed; clients learn by them from their next requests on.

    Args:
        settings: The new values by the names of the settings.
    """

    settings: dict[str, Any]


@dataclass(frozen=True)
class CrossTested:
    """A model was tested on the test data of all clients that agree to it (`cross_site`).

    Args:
        model: The number of the client whose own model it is; `GLOBAL_MODEL`: the global one.
        clients: The numbers of the clients on whose data it was tested.
        right: How many test samples of each of these clients it predicts right.
        samples: How many test samples each of these clients has.
    """

    model: int
    clients: list[int]
    right: list[int]
    samples: list[int]


Event = (
    Learned
    | Round
    | Arrived
    | Evaluated
    | Remembered
    | TaskEnded
    | Appeared
    | Skipped
    | Halted
    | Changed
    | CrossTested
)

_KINDS: dict[str, type[Event]] = {kind.__name__.lower(): kind for kind in get_args(Event)}


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
