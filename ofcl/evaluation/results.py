"""The result of a run, computed from its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ofcl.evaluation import metrics
from ofcl.events import (
    GLOBAL_MODEL,
    Changed,
    CrossTested,
    Evaluated,
    Event,
    Hits,
    Learned,
    Round,
    Skipped,
    TaskEnded,
    from_json,
    to_json,
)


@dataclass(frozen=True)
class Result:
    """The result of a run. Accuracies are in percent; None means that nothing was measured.

    `docs/design.md` explains the values.
    """

    A: float | None
    F: float | None
    global_A: float | None
    global_F: float | None
    balanced_accuracy: float | None
    validation_A: float | None
    anytime_accuracy: float | None
    anytime_loss: float | None
    rounds: int
    bytes_sent: int
    bytes_received: int
    seconds: float
    accuracy: list[list[metrics.Row]]  # clients × tests after a task × tasks
    global_accuracy: list[metrics.Row]  # tests × tasks
    skipped: int = 0  # samples of streams that could not be used
    anytime: list[dict[str, Any]] = field(default_factory=list)  # sums by client and task
    cross_site: list[dict[str, Any]] = field(default_factory=list)  # a row for each model

    def to_json(self) -> dict[str, Any]:
        """Returns the result as plain values, as in `result.json`; without what was not held."""
        values = asdict(self)
        return values if self.cross_site else {k: v for k, v in values.items() if k != "cross_site"}


def summarise(
    events: Iterable[Event],
    *,
    clients: int,
    tasks: int | None,
    seconds: float,
    joint: bool = False,
) -> Result:
    """Computes the result of a run from all its events.

    Args:
        events: The events of the run.
        clients: The number of clients.
        tasks: The number of tasks; None: those that the events name are counted.
        seconds: How long the run has taken.
        joint: Whether the clients learned all tasks as one, and were tested once.
    """
    summary = Summary()
    for event in events:
        summary.add(event)
    return summary.result(clients=clients, tasks=tasks, seconds=seconds, joint=joint)


class Summary:
    """The sums of a run's events, from which its result can be computed at any time.

    It grows with the number of clients and tasks, not with the number of events. Events of
    different clients may come in any order.

    Attributes:
        changed: Settings that have changed in the run, with their last values.
    """

    def __init__(self) -> None:
        self._rounds = self._bytes_sent = self._bytes_received = self._skipped = 0
        self.changed: dict[str, Any] = {}
        self._evaluated: dict[tuple[int, int], Evaluated] = {}  # by client and task
        self._learned: dict[tuple[int, int], dict[str, Any]] = {}  # by client and task
        self._crossed: dict[int, CrossTested] = {}  # by model

    def state(self) -> dict[str, Any]:
        """Gives the sums as plain values, from which `from_state` makes them again."""
        return {
            "rounds": self._rounds,
            "bytes": [self._bytes_sent, self._bytes_received],
            "skipped": self._skipped,
            "changed": dict(self.changed),
            "evaluated": [to_json(event) for event in self._evaluated.values()],
            "learned": [dict(sums) for sums in self._learned.values()],
            "crossed": [to_json(event) for event in self._crossed.values()],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Summary:
        """Makes the sums that `state` gave.

        Args:
            state: The plain values.
        """
        summary = cls()
        summary._rounds, summary._skipped = state["rounds"], state["skipped"]
        summary._bytes_sent, summary._bytes_received = state["bytes"]
        summary.changed = dict(state.get("changed", {}))  # earlier versions had none
        for value in [*state["evaluated"], *state.get("crossed", [])]:
            summary.add(from_json(value))
        summary._learned = {(sums["client"], sums["task"]): dict(sums) for sums in state["learned"]}
        return summary

    def add(self, event: Event) -> None:
        """Adds an event to the sums.

        Args:
            event: The event; kinds that do not matter for the result are ignored.
        """
        match event:
            case Learned():
                self._add_learned(event)
            case Round():
                self._rounds += 1
                self._bytes_sent += event.bytes_sent
                self._bytes_received += event.bytes_received
            case Evaluated():
                self._evaluated[event.client, event.task] = event
            case Changed():
                self.changed |= event.settings
            case CrossTested():
                self._crossed[event.model] = event
            case Skipped():
                self._skipped += 1
            case TaskEnded():
                self._bytes_sent += event.bytes_sent
                self._bytes_received += event.bytes_received

    def tested_by_all(self, clients: int, task: int) -> bool:
        """Says whether every client has been tested at the end of a task.

        Args:
            clients: The number of clients.
            task: The number of the task, from 0.
        """
        return all((client, task) in self._evaluated for client in range(clients))

    def classes_of_tasks(self) -> list[list[int]]:
        """Lists the classes of each task in the last tests; empty if clients have others.

        Classes without test samples are not in it.
        """
        last = {client: event for (client, _), event in sorted(self._evaluated.items())}
        found = [[[row[0] for row in task] for task in e.global_test] for e in last.values()]
        alike = found and all(tasks == found[0] for tasks in found)
        return found[0] if alike else []

    def _add_learned(self, event: Learned) -> None:
        """Adds the losses and the right predictions of mini-batches that a client has learned."""
        key = event.client, event.task
        nothing = {"batches": 0, "samples": 0, "loss": 0, "correct": 0}
        sums = self._learned.setdefault(
            key, {"client": event.client, "task": event.task, **nothing}
        )
        for name in nothing:
            sums[name] += getattr(event, name)

    def result(
        self, *, clients: int, tasks: int | None, seconds: float, joint: bool = False
    ) -> Result:
        """Computes the result of the events so far.

        Args:
            clients: The number of clients.
            tasks: The number of tasks; None: those that the events name are counted.
            seconds: How long the run has taken.
            joint: Whether the clients learn all tasks as one, and are tested once.
        """
        matrices = self._matrices(clients, tasks, joint)
        accuracy, validation = matrices.of("test"), matrices.of("validation")
        global_accuracy = matrices.pooled()
        anytime = [dict(self._learned[key]) for key in sorted(self._learned)]
        samples = sum(sums["samples"] for sums in anytime)
        correct, loss = (sum(sums[name] for sums in anytime) for name in ("correct", "loss"))
        learned_together = self._rounds > 0  # else the global model is the initial one
        return Result(
            A=metrics.mean(map(metrics.last_accuracy, matrices.to_the_end(accuracy))),
            F=metrics.mean(map(metrics.forgetting, matrices.to_the_end(accuracy))),
            global_A=metrics.last_accuracy(global_accuracy) if learned_together else None,
            global_F=metrics.forgetting(global_accuracy) if learned_together else None,
            balanced_accuracy=metrics.mean(map(metrics.balanced_accuracy, matrices.last_tests())),
            validation_A=metrics.mean(map(metrics.last_accuracy, matrices.to_the_end(validation))),
            anytime_accuracy=100 * correct / samples if samples else None,
            anytime_loss=loss / samples if samples else None,
            rounds=self._rounds,
            bytes_sent=self._bytes_sent,
            bytes_received=self._bytes_received,
            seconds=seconds,
            accuracy=accuracy,
            global_accuracy=global_accuracy,
            skipped=self._skipped,
            anytime=anytime,
            cross_site=[_cross_row(self._crossed[model]) for model in sorted(self._crossed)],
        )

    def _matrices(self, clients: int, tasks: int | None, joint: bool) -> _Matrices:
        """Collects the tests in the events so far; the parameters are those of `result`."""
        if tasks is not None:
            tests = 1 if joint else tasks
            return _Matrices(self._evaluated, tests, tasks, [tests - 1] * clients)
        tasks = 1 + max((task for _, task in [*self._evaluated, *self._learned]), default=0)
        # Streams have as many tasks as they have; each client ends with its own last one.
        ends = [
            max((task for k, task in self._evaluated if k == client), default=tasks - 1)
            for client in range(clients)
        ]
        return _Matrices(self._evaluated, tasks, tasks, ends)


def _cross_row(event: CrossTested) -> dict[str, Any]:
    """Gives the accuracies of a model on the data of several clients, as plain values.

    The model is named by the number of the client whose own it is; None stands for the global one.
    """
    pairs = zip(event.right, event.samples, strict=True)
    return {
        "model": None if event.model == GLOBAL_MODEL else event.model,
        "clients": event.clients,
        "accuracy": [100 * right / samples if samples else None for right, samples in pairs],
        "samples": event.samples,
    }


@dataclass(frozen=True)
class _Matrices:
    """The tests of a run as matrices of accuracies: a row for each test, a column for each task.

    Args:
        evaluated: The evaluations by client and test; a client is tested after each task.
        tests: The number of rows.
        tasks: The number of columns.
        ends: The number of each client's last test, counted from 0.
    """

    evaluated: dict[tuple[int, int], Evaluated]
    tests: int
    tasks: int
    ends: list[int]

    def of(self, part: Literal["test", "validation"]) -> list[list[metrics.Row]]:
        """Makes the matrix of every client, on its test or its validation samples (`part`)."""
        matrices = []
        for client in range(len(self.ends)):
            events = [self.evaluated.get((client, task)) for task in range(self.tests)]
            hits = [getattr(event, part) if event is not None else [] for event in events]
            matrices.append([metrics.accuracies(counts, self.tasks) for counts in hits])
        return matrices

    def to_the_end(self, matrices: list[list[metrics.Row]]) -> list[list[metrics.Row]]:
        """Returns the clients' matrices, each without the rows after the client's last test."""
        return [rows[: end + 1] for rows, end in zip(matrices, self.ends, strict=True)]

    def last_tests(self) -> list[Hits]:
        """Lists the counts of each client's last test; clients without that test are left out."""
        last = enumerate(self.ends)
        return [self.evaluated[key].test for key in last if key in self.evaluated]

    def pooled(self) -> list[metrics.Row]:
        """Makes the global model's matrix from the counts of all clients added up.

        If a client has fewer tasks than others, the counts of its last test are used for the later
        tasks too.
        """
        rows = []
        for task in range(self.tests):
            keys = [(client, min(task, end)) for client, end in enumerate(self.ends)]
            hits = [self.evaluated[key].global_test for key in keys if key in self.evaluated]
            rows.append(metrics.accuracies(metrics.merge(hits), self.tasks))
        return rows
