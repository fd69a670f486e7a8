"""The events that leave a party, in the least detail that accuracy and forgetting need.

The server gets one `Learned` for each stretch of learning, and counts of rightly predicted test
samples. Which samples the party remembers, which rows it skipped and which classes its model
confuses stay with the party.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ofcl.events import Evaluated, Event, Hits, Learned

ALL_CLASSES = -1  # stands for all classes of a task, where counts by class stay with the party


def leaving(events: Sequence[Event], class_counts: bool) -> list[Event]:
    """Chooses and sums up the events that a party sends to the server.

    Args:
        events: The events of one exchange, in their order.
        class_counts: Whether counts of test samples are sent by class; else by task.

    Returns:
        One `Learned` for the mini-batches of a task that were learned one after the other, with
        their sums; and every `Evaluated`, without its confusions. All other events are left out.
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
    """Adds up `Learned` events of one client and task to a single one."""
    return Learned(
        client=events[0].client,
        task=events[0].task,
        batches=sum(event.batches for event in events),
        samples=sum(event.samples for event in events),
        loss=sum(event.loss for event in events),
        correct=sum(event.correct for event in events),
    )


def _without_classes(event: Evaluated) -> Evaluated:
    """Gives an evaluation whose counts are summed over the classes of each task."""
    return replace(
        event,
        test=_all_classes(event.test),
        validation=_all_classes(event.validation),
        global_test=_all_classes(event.global_test),
    )


def _all_classes(hits: Hits) -> Hits:
    """Replaces the rows of each task, one for each class, by one row of class `ALL_CLASSES`."""
    return [
        [[ALL_CLASSES, sum(row[1] for row in task), sum(row[2] for row in task)]] if task else []
        for task in hits
    ]
