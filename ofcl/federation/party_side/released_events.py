"""The events that leave a party, in the least detail that accuracy and forgetting need.

How it has learned leaves in one number a stretch, and how many test samples it gets right. What it
remembers, which rows it skipped and which classes are taken for each other stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ofcl.events import Evaluated, Event, Hits, Learned

ALL_CLASSES = -1  # stands for the classes of a task where counts by class do not leave


def leaving(events: Sequence[Event], class_counts: bool) -> list[Event]:
    """Chooses and sums up the events that a party sends to the server.

    Args:
        events: The events of one exchange, in their order.
        class_counts: False: counts of test samples are summed over the classes of a task.

    Returns:
        One `Learned` for each stretch of learning, and every `Evaluated`, without its confusions.
    """
    sent: list[Event] = []
    of_interest = (event for event in events if isinstance(event, Learned | Evaluated))
    for kind, group in groupby(of_interest, key=lambda event: (type(event), event.task)):
        if kind[0] is Learned:
            sent.append(_summed([event for event in group if isinstance(event, Learned)]))
        else:
            evaluated = [
                replace(event, confusions=[]) for event in group if isinstance(event, Evaluated)
            ]
            sent += evaluated if class_counts else map(_without_classes, evaluated)
    return sent


def _summed(events: list[Learned]) -> Learned:
    return Learned(
        client=events[0].client,
        task=events[0].task,
        batches=sum(event.batches for event in events),
        samples=sum(event.samples for event in events),
        loss=sum(event.loss for event in events),
        correct=sum(event.correct for event in events),
    )


def _without_classes(event: Evaluated) -> Evaluated:
    return replace(
        event,
        test=_all_classes(event.test),
        validation=_all_classes(event.validation),
        global_test=_all_classes(event.global_test),
    )


def _all_classes(hits: Hits) -> Hits:
    return [
        [[ALL_CLASSES, sum(row[1] for row in task), sum(row[2] for row in task)]] if task else []
        for task in hits
    ]
