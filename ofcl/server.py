"""The server: it averages what clients send into the global model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from ofcl.aggregation import Aggregation, fedavg, mix
from ofcl.methods.learner import ServerPart
from ofcl.models.head import grown, width
from ofcl.privacy import clipped
from ofcl.seeds import numpy_generator
from ofcl.state import State, Tensors
from ofcl.update import Update


class Server:
    """Keeps the global model, draws who takes part in a round, and averages what they send."""

    def __init__(
        self,
        model: Tensors,
        *,
        aggregate: Aggregation = fedavg,
        previous: float = 0.5,
        previous_start: Literal["none", "initial"] = "none",
        min_clients: int = 2,
        participation: float = 1.0,
        dropout: float = 0.0,
        clip_norm: float | None = None,
        part: ServerPart | None = None,
        seed: int = 0,
    ) -> None:
        self.task, self._part = 0, part
        self.closing = False  # whether the last round of a task has been
        self.model = {name: value.detach().clone() for name, value in model.items()}
        self.round = 0
        self._attempt = 0  # rounds that were tried, also those for which too few clients came
        self._aggregate, self._previous, self._previous_start = aggregate, previous, previous_start
        self._min_clients, self._participation = min_clients, participation
        self._dropout, self._clip_norm, self._seed = dropout, clip_norm, seed

    def draw(self, waiting: Sequence[int], clients: int) -> list[int]:
        """Who of the waiting clients takes part: a seeded draw, less those that drop out.

        An empty list means that too few are left for a round.
        """
        draw = numpy_generator(self._seed, "round", self._attempt)
        self._attempt += 1
        order, luck = draw.permutation(clients).tolist(), draw.random(clients)
        wanted = max(math.ceil(round(self._participation * clients, 6)), self._min_clients)
        drawn = [client for client in order if client in set(waiting)][:wanted]
        present = sorted(client for client in drawn if luck[client] >= self._dropout)
        return present if len(present) >= self._min_clients else []

    @torch.no_grad()
    def aggregate(self, updates: Sequence[Update]) -> Tensors:
        """Makes the next global model; what does not travel stays as it was."""
        if not any(update.samples for update in updates):  # a task that was empty for all
            self.round += 1
            return self.model
        no_previous = self.round == 0 and self._previous_start == "none"
        updates = self._as_wide(updates)
        if self._clip_norm is not None:
            norm = self._clip_norm
            updates = [replace(u, state=clipped(u.state, self.model, norm)) for u in updates]
        previous = None if no_previous else self.model
        new = self._aggregate(updates, previous)
        if previous is not None:
            new = mix(new, previous, self._previous)
        self.model = self.model | new
        if self._part is not None:
            self.model = self.model | self._part.after_round(self.model, updates)
        self.round += 1
        return self.model

    def end_task(self) -> Tensors:
        """A task has ended for every client; gives what its method hands out besides the model."""
        self.task, self.closing = self.task + 1, False
        return self._part.end_task(self.model) if self._part is not None else {}

    def pictures(self, each: int = 10, at_the_end: bool = False) -> dict[int, Tensor]:
        """Images that the method's generator makes, so many of each class.

        None without a generator, and at the end of a run if it has not learned since.
        """
        if self._part is None or (at_the_end and not self._part.every_round):
            return {}
        return self._part.pictures(each)

    def _as_wide(self, updates: Sequence[Update]) -> list[Update]:
        """Updates, and the global model, with an output for every class that any party has."""
        classes = max(map(width, (self.model, *(update.state for update in updates))))
        self.model = grown(self.model, classes, self._seed)
        return [replace(u, state=grown(u.state, classes, self._seed)) for u in updates]

    def state(self) -> State:
        """Everything, for a checkpoint."""
        return {
            "model": self.model,
            "round": self.round,
            "task": self.task,
            "closing": self.closing,
            "attempt": self._attempt,
            "part": self._part.state() if self._part is not None else None,
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        for name, value in state["model"].items():
            self.model[name] = value.to(self.model[name])
        self.round, self._attempt = int(state["round"]), int(state["attempt"])
        self.task, self.closing = int(state["task"]), bool(state["closing"])
        if self._part is not None:
            self._part.load_state(state["part"])
