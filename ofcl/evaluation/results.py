"""The result of a run, computed from its events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ofcl.evaluation import metrics
from ofcl.events import Evaluated, Event, Hits, Learned, Round, Skipped, TaskEnded


@dataclass(frozen=True)
class Result:
    """What a run came to; accuracies and forgetting in percent, None where nothing was measured."""

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
    accuracy: list[list[metrics.Row]]  # clients × tasks × tasks
    global_accuracy: list[metrics.Row]  # tasks × tasks
    skipped: int = 0  # samples of streams that could not be used
    anytime: list[dict[str, Any]] = field(default_factory=list)  # a client's loss in each task

    def to_json(self) -> dict[str, Any]:
        """The result as plain values, as in `result.json`."""
        return asdict(self)


def summarise(
    events: Iterable[Event], *, clients: int, tasks: int | None, seconds: float
) -> Result:
    """Adds the events of a run up. It does not matter how those of different clients interleave.

    `tasks` None: as many as there were.
    """
    skipped = handed = 0
    rounds: list[Round] = []
    test: dict[tuple[int, int], Evaluated] = {}
    stream: dict[tuple[int, int], list[Learned]] = defaultdict(list)
    for event in events:
        match event:
            case Learned():
                stream[event.client, event.task].append(event)
            case Round():
                rounds.append(event)
            case Evaluated():
                test[event.client, event.task] = event
            case Skipped():
                skipped += 1
            case TaskEnded():
                handed += event.bytes_received
    if tasks is None:
        tasks = 1 + max((task for _, task in [*test, *stream]), default=0)
        # Streams have as many tasks as they have; each client ends with its own last one.
        ends = {k: max((t for j, t in test if j == k), default=tasks - 1) for k in range(clients)}
    else:
        ends = dict.fromkeys(range(clients), tasks - 1)

    def matrix(part: str) -> list[list[metrics.Row]]:
        hits = {key: getattr(event, part) for key, event in test.items()}
        return [
            [metrics.accuracies(hits.get((k, t), []), tasks) for t in range(tasks)]
            for k in range(clients)
        ]

    def last(part: str) -> list[Hits]:
        return [getattr(test[end], part) for end in ends.items() if end in test]

    def to_its_end(matrices: list[list[metrics.Row]]) -> list[list[metrics.Row]]:
        return [[row[: ends[k] + 1] for row in rows[: ends[k] + 1]]
                for k, rows in enumerate(matrices)]  # fmt: skip

    accuracy = matrix("test")
    # Where clients have fewer tasks than others, their last evaluation stands for the later ones.
    at = [[(k, min(t, end)) for k, end in ends.items()] for t in range(tasks)]
    pooled = [metrics.merge([test[key].global_test for key in keys if key in test]) for keys in at]
    global_accuracy = [metrics.accuracies(hits, tasks) for hits in pooled]
    anytime = [_along_stream(*key, stream[key]) for key in sorted(stream)]
    samples = sum(part["samples"] for part in anytime)
    return Result(
        A=metrics.mean(metrics.last_accuracy(rows) for rows in to_its_end(accuracy)),
        F=metrics.mean(metrics.forgetting(rows) for rows in to_its_end(accuracy)),
        # Without a round, the global model has not learned anything.
        global_A=metrics.last_accuracy(global_accuracy) if rounds else None,
        global_F=metrics.forgetting(global_accuracy) if rounds else None,
        balanced_accuracy=metrics.mean(map(metrics.balanced_accuracy, last("test"))),
        validation_A=metrics.mean(
            metrics.last_accuracy(rows) for rows in to_its_end(matrix("validation"))
        ),
        anytime_accuracy=100 * sum(p["correct"] for p in anytime) / samples if samples else None,
        anytime_loss=sum(p["loss"] for p in anytime) / samples if samples else None,
        rounds=len(rounds),
        bytes_sent=sum(event.bytes_sent for event in rounds),
        bytes_received=handed + sum(event.bytes_received for event in rounds),
        seconds=seconds,
        accuracy=accuracy,
        global_accuracy=global_accuracy,
        skipped=skipped,
        anytime=anytime,
    )


def _along_stream(client: int, task: int, events: list[Learned]) -> dict[str, Any]:
    """Sums over one client's mini-batches of one task, each counted before it was learned."""
    return {
        "client": client,
        "task": task,
        "batches": sum(event.batches for event in events),
        "samples": sum(event.samples for event in events),
        "loss": sum(event.loss for event in events),
        "correct": sum(event.correct for event in events),
    }
