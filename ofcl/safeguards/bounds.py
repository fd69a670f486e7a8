"""Bounds on updates that come from outside: how far one may go, and how much one may weigh.

Parties of a federation are not trusted. What each of them may do to the global model is bounded by
what the others of the same round do, so that nobody has to know how long an honest update is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from ofcl.compute import foreach
from ofcl.compute.devices import wide
from ofcl.privacy import clipped
from ofcl.state import State, Tensors
from ofcl.update import Update

REMEMBERED = 20  # rounds whose usual lengths are remembered

Report = Callable[[int, str], None]
"""Is told the number of a client, and in words what was done to its update."""


class Bounds:
    """Pulls back updates that go too far, and lowers weights that are too large.

    Args:
        distance: An update may go so many times as far as the usual one; None: any distance.
        weight: A client may weigh so many times as much as the usual one; None: any weight.
        report: Is told of each client whose update was changed.
    """

    def __init__(
        self, distance: float | None, weight: float | None, report: Report = lambda k, what: None
    ) -> None:
        self._distance, self._weight, self._report = distance, weight, report
        self._usual: list[float] = []  # the usual lengths of the last rounds
        self._counts: list[float] = []  # and the usual sample counts

    def applied(self, updates: Sequence[Update], model: Tensors) -> list[Update]:
        """Gives the updates of a round as they may be averaged.

        Args:
            updates: The updates, as wide as the model.
            model: The global model, from which the clients have started.
        """
        return self._light(self._near(updates, model))

    def _near(self, updates: Sequence[Update], model: Tensors) -> list[Update]:
        """Pulls back updates that go farther than `distance` times the usual length."""
        if self._distance is None:
            return list(updates)
        lengths = [_length(update.state, model) for update in updates]
        # One that sends nothing cannot hold up the others: earlier rounds count, too. And one that
        # keeps its update back (`Sender.fewest_new`) has no samples, and says nothing of the usual.
        said = [n for u, n in zip(updates, lengths, strict=True) if u.samples]
        few = bool(self._usual) and 2 * len(said) <= len(updates)  # they may be the dishonest ones
        now = usual_of(said)
        usual = usual_of(self._usual) if few else max(now, usual_of(self._usual))
        limit = self._distance * usual
        near = []
        for update, length in zip(updates, lengths, strict=True):
            if length > limit:
                times = "without any bound" if usual == 0 else f"{length / usual:.3g} times as far"
                self._report(
                    update.client,
                    f"its update goes {times} as the usual one; it was pulled back to "
                    f"{self._distance:g} times",
                )
                update = replace(update, state=_pulled_back(update.state, model, limit))
            near.append(update)
        if not few:
            self._usual = [*self._usual, now][-REMEMBERED:]
        return near

    def _light(self, updates: Sequence[Update]) -> list[Update]:
        """Lowers sample counts that are more than `weight` times the usual count."""
        if self._weight is None:
            return list(updates)
        # Where a task has just begun for some, the counts of earlier rounds say what is usual.
        now = usual_of([update.samples for update in updates if update.samples])
        usual = max(now, usual_of(self._counts))
        self._counts = [*self._counts, now][-REMEMBERED:]
        most = int(self._weight * usual)
        light = []
        for update in updates:
            if update.samples > most:
                self._report(
                    update.client,
                    f"it says that it has learned {update.samples} samples, the usual count is "
                    f"{usual:g}; it weighs like {most}",
                )
                share = most / update.samples
                classes = {c: max(1, int(n * share)) for c, n in update.classes.items()}
                update = replace(update, samples=most, classes=classes)
            light.append(update)
        return light

    def state(self) -> State:
        """Gives the usual lengths and counts of the last rounds, for a checkpoint."""
        return {"usual": list(self._usual), "counts": list(self._counts)}

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: What `state` gave; empty in checkpoints of earlier versions.
        """
        self._usual = [float(length) for length in state.get("usual", [])]
        self._counts = [float(count) for count in state.get("counts", [])]


def usual_of(values: Sequence[float]) -> float:
    """Gives the median; of an even number of values the smaller of the two in the middle.

    Of two values it is the smaller one: a single odd client cannot choose it.

    Args:
        values: The values; the median of none is 0.

    >>> usual_of([3.0, 1e20]), usual_of([2.0, 3.0, 1e20])
    (3.0, 3.0)
    """
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0


def _length(state: Tensors, model: Tensors) -> float:
    """Computes the Euclidean distance of two models; squares of 1e20 are finite in 64 bits."""
    change = foreach.differences(list(state.values()), [model[name] for name in state])
    length = float(torch.nn.utils.get_total_norm(change))
    if math.isfinite(length):
        return length
    return float(torch.nn.utils.get_total_norm([wide(part) for part in change]))


def _pulled_back(state: Tensors, model: Tensors, limit: float) -> Tensors:
    """Pulls a model back towards another one, to a distance (`limit`)."""
    given = {name: wide(value) for name, value in state.items()}
    start = {name: wide(model[name]) for name in state}
    near = clipped(given, start, limit)
    return {name: near[name].to(state[name]) for name in state}
