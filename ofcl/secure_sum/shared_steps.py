"""The server's side of coded sums: it plans the steps, and reads the mean of all changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ofcl.errors import OfclError
from ofcl.models.head import grown, width
from ofcl.secure_sum.coding import (
    MOST_WEIGHT,
    Coding,
    as_tensors,
    coded_of,
    mean_change,
    next_reach,
)
from ofcl.secure_sum.fixed_point import decoded
from ofcl.secure_sum.vectors import NOTHING, Vector
from ofcl.state import State, Tensors


class SharedSteps:
    """Plans the steps of a run's sums; knows how far the changes of the last sum went.

    Args:
        template: Tensors with the names, shapes and types of an update's.
        checksum: Computes the checksum of a global model; None: sums are not coded.
        seed: The run's seed, from which missing outputs of a head are drawn.

    Attributes:
        reach: How far a change may go, for each tensor; {}: no sum has shown it yet.
    """

    def __init__(
        self, template: Tensors, checksum: Callable[[Tensors], int] | None, seed: int
    ) -> None:
        self._template, self._checksum, self._seed = template, checksum, seed
        self._base: Tensors = {}
        self.reach: dict[str, float] = {}

    def begin(self, base: Tensors) -> None:
        """Begins a sum.

        Args:
            base: The global model, since which changes count.
        """
        if self._checksum is not None:
            self._base = {name: base[name].detach().cpu().clone() for name in self._template}

    def read(self, answer: State) -> State:
        """Reads the weight of a party, and the checksum of its global model.

        Args:
            answer: The party's answer to the first step; it is not trusted.

        Returns:
            What a sum's steps are planned with; empty if sums are not coded.

        Raises:
            OfclError: If they cannot be.
        """
        if self._checksum is None:
            return {}
        weight, base = answer["weight"], answer["base"]
        if type(weight) is not int or not 0 <= weight <= MOST_WEIGHT or type(base) is not int:
            raise OfclError("its weight, or its global model, cannot be")
        return {"weight": weight, "base": base}

    def plan(self, keys: State) -> State | None:
        """Plans the steps of a sum.

        Args:
            keys: What `read` gave of all parties.

        Returns:
            What all parties are told (`Coding`); None: models are sent, because this is the first
            sum, or some party has another global model.
        """
        if self._checksum is None or not self.reach:
            return None
        base = self._checksum(self._base)
        weight = sum(answer["weight"] for answer in keys.values())
        if weight == 0 or any(answer["base"] != base for answer in keys.values()):
            return None
        return Coding(base, self.reach, weight, len(keys)).state()

    def mean(
        self, total: Vector, like: Tensors, coding: Coding | None, keys: Sequence[State]
    ) -> tuple[Tensors, int]:
        """Reads the weighted mean of the updates, and the sum of their weights.

        Args:
            total: The sum of all vectors.
            like: Tensors of the form that the mean has.
            coding: The steps of the sum; None: models were sent.
            keys: What `read` gave of the parties whose vectors are in the sum.

        Raises:
            OfclError: If the sum cannot be right.
        """
        coded = coded_of(like)
        exact, weight = decoded(total.exact, self._exact(like, coding))
        told = sum(answer["weight"] for answer in keys) if coding is not None else weight
        if not 0 <= weight <= len(keys) * MOST_WEIGHT or weight != told:
            raise OfclError("its weight cannot be")
        if weight == 0 or self._checksum is None:
            return exact, weight
        went = {name: exact.pop(name) for name in as_tensors(dict.fromkeys(coded, 0.0))}
        self.reach = next_reach(went, coding.reach if coding is not None else {})
        if coding is None:
            return exact, weight
        base = grown(self._base, width(like), self._seed)
        change = mean_change(total.small, coding, weight, coded)
        exact |= {n: (base[n].double() + change[n]).to(like[n]) for n in coded}
        return {name: exact[name] for name in like}, weight

    def form(self, like: Tensors, coding: Coding | None) -> Vector:
        """Gives a vector of the form that all vectors of a sum have.

        Args:
            like: Tensors of the form that updates have.
            coding: The steps of the sum; None: models are sent.
        """
        exact = sum(tensor.numel() for tensor in self._exact(like, coding).values())
        small = NOTHING
        if coding is not None:
            count = sum(tensor.numel() for tensor in coded_of(like).values())
            small = torch.zeros(count, dtype=coding.dtype)
        return Vector(torch.zeros(exact + 1, dtype=torch.int64), small)

    def _exact(self, like: Tensors, coding: Coding | None) -> Tensors:
        """Gives tensors of the form of those that are summed in fixed point."""
        if self._checksum is None:
            return like
        coded = coded_of(like)
        rest = like if coding is None else {n: t for n, t in like.items() if n not in coded}
        return {**rest, **as_tensors(dict.fromkeys(coded, 0.0))}
