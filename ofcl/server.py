"""The server: it averages the clients' updates into the global model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from ofcl.aggregation import Aggregation, fedavg, mix
from ofcl.compression.steps import Steps
from ofcl.compute.devices import all_to_device
from ofcl.methods.learner import ServerPart
from ofcl.models.head import grown, width
from ofcl.models.prototypes import prototypes
from ofcl.privacy import clipped
from ofcl.safeguards.bounds import Bounds
from ofcl.safeguards.earlier_models import EarlierModels
from ofcl.safeguards.late_updates import LateUpdates
from ofcl.seeds import numpy_generator
from ofcl.state import State, Tensors, nbytes
from ofcl.update import Update


class Server:
    """Keeps the global model, draws who takes part in a round, and averages the updates.

    Args:
        model: The initial global model.
        aggregate: How updates are averaged.
        previous: The share of the previous global model in the new one.
        previous_start: What counts as the previous model in the first round: `none`, or the
            `initial` one.
        min_clients: How many clients a round needs.
        participation: The share of all clients that is drawn for a round.
        dropout: The probability that a drawn client misses the round.
        clip_norm: The largest distance of an update from the global model; an update that is
            farther away is pulled back. None: any distance is allowed.
        bounds: Bounds what one update can do, by the others of its round; None: nothing does.
        earlier: Keeps earlier global models, to which `go_back` goes; None: none are kept.
        late: The buffer of updates that nobody waits for (`ofcl.buffered`); None: rounds wait.
        steps: Codes the steps of the global model, to which it is rounded; None: it is sent whole.
        part: The server's part of a generative method; None: the method has none.
        surveys: Whether, at the end of a task, clients are asked for the features of their memories
            (`take_survey`).
        frozen: The tensors of the model that never change, by name; they belong to a saved model.
        seed: The run's seed, for the draws of clients and for the outputs of new classes.
    """

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
        bounds: Bounds | None = None,
        earlier: EarlierModels | None = None,
        late: LateUpdates | None = None,
        steps: Steps | None = None,
        part: ServerPart | None = None,
        surveys: bool = False,
        frozen: Tensors | None = None,
        seed: int = 0,
    ) -> None:
        self.task, self._part = 0, part
        self.closing = False  # whether the closing round of the task is over
        self.model = {name: value.detach().clone() for name, value in model.items()}
        self.surveys = surveys
        self.frozen = frozen or {}
        self.prototypes: Tensors = {}  # of the global model as it is now; {}: there are none
        self.round = 0
        self._attempt = 0  # rounds that were tried, with enough clients or not
        self._in_round = False  # whether clients are drawn and their updates still to come
        self._aggregate, self._previous, self._previous_start = aggregate, previous, previous_start
        self._min_clients, self._participation = min_clients, participation
        self._dropout, self._clip_norm, self._seed = dropout, clip_norm, seed
        self._bounds, self.earlier, self.steps, self.late = bounds, earlier, steps, late
        if late is not None:
            late.begin(self.model)

    def draw(self, waiting: Sequence[int], clients: int) -> list[int]:
        """Draws the clients that take part in a round, without those that drop out.

        Args:
            waiting: The numbers of the clients that have reached a communication point.
            clients: How many clients there are in all.

        Returns:
            The numbers of the clients that take part; empty if they are too few for a round.
        """
        draw = numpy_generator(self._seed, "round", self._attempt)
        self._attempt += 1
        order, luck = draw.permutation(clients).tolist(), draw.random(clients)
        wanted = max(math.ceil(round(self._participation * clients, 6)), self._min_clients)
        drawn = [client for client in order if client in set(waiting)][:wanted]
        present = sorted(client for client in drawn if luck[client] >= self._dropout)
        self._in_round = self.enough(present)
        return present if self._in_round else []

    def enough(self, clients: Sequence[int]) -> bool:
        """Tells whether some clients are enough for a round.

        Args:
            clients: The numbers of the clients.
        """
        return len(clients) >= self._min_clients

    @torch.no_grad()
    def aggregate(self, updates: Sequence[Update]) -> Tensors:
        """Makes the next global model from the updates of a round, and returns it.

        Tensors that no update has, such as BatchNorm statistics that stay local, do not change. If
        no client has samples, the whole model does not.

        Args:
            updates: The updates of the clients that take part.
        """
        self._in_round = False
        if not any(update.samples for update in updates):  # a task that was empty for all
            self.round += 1
            return self.model
        self.prototypes = {}  # they were the old model's
        before = self.model
        no_previous = self.round == 0 and self._previous_start == "none"
        updates = self._as_wide(updates)
        if self._clip_norm is not None:
            norm = self._clip_norm
            updates = [replace(u, state=clipped(u.state, self.model, norm)) for u in updates]
        if self._bounds is not None:
            updates = self._bounds.applied(updates, self.model)
        if self.earlier is not None:
            self.earlier.keep(self.round, self.model)
        previous = None if no_previous else self.model
        new = self._aggregate(updates, previous)
        if previous is not None:
            new = mix(new, previous, self._previous)
        self.model = self.model | new
        if self._part is not None:
            self.model = self.model | self._part.after_round(self.model, updates)
        if self.steps is not None:
            self.model = self.steps.taken(self.model, before)
        self.round += 1
        return self.model

    def size(self, updates: Sequence[Update]) -> int:
        """Counts the bytes of the global model as it travels to a client that has taken part.

        Args:
            updates: The updates of the round, of which a client gets as many tensors back.
        """
        if self.steps is not None:
            return self.steps.nbytes
        return nbytes(updates[0].state) if updates else 0

    def handing(self) -> Callable[[int], None] | None:
        """Gives the function that notes who takes the global model now; None: rounds wait."""
        late = self.late
        if late is None:
            return None
        return lambda client: late.hand_to(client, self.model, self.round)

    def go_back(self) -> int | None:
        """Takes an earlier global model instead of the newest one, or the newest one again.

        The model is changed in place, because requests that are still to be sent hold it.

        Returns:
            The number of rounds after which that model was the global one; None: none is kept.
        """
        earlier = self.earlier
        found = earlier.go_back(self.round, self.model) if earlier is not None else None
        if found is None:
            return None
        number, model = found
        wide = grown(model, width(self.model), self._seed)
        self.model.update({name: value.to(self.model[name]) for name, value in wide.items()})
        self.prototypes = {}
        return number

    def take_survey(self, surveys: Sequence[Update]) -> None:
        """Makes the prototypes of the global model from the features of the clients' memories.

        They are those of one memory with all clients' samples (`models/prototypes.py`).

        Args:
            surveys: The surveys of the clients, made with the global model (`Client.survey`).
        """
        # A client may have met a class since the last round; the model has no output for it yet.
        classes = width(self.model)
        self.prototypes = prototypes(
            [{name: t[:classes] for name, t in survey.extras.items()} for survey in surveys]
        )

    def end_task(self) -> Tensors:
        """Ends a task for every client.

        Returns:
            The tensors that clients get besides the model: those that a generative method hands
            out, or the prototypes. Often there are none.
        """
        self.task, self.closing = self.task + 1, False
        return self._part.end_task(self.model) if self._part is not None else self.prototypes

    def pictures(self, each: int = 10, at_the_end: bool = False) -> dict[int, Tensor]:
        """Makes images with the generator of a generative method.

        Args:
            each: How many images of each class are made.
            at_the_end: Whether the run is over. A generator that learns only at the end of tasks
                has then learned nothing since its last images, and makes none.

        Returns:
            The images by class; empty if the method has no generator.
        """
        if self._part is None or (at_the_end and not self._part.every_round):
            return {}
        return self._part.pictures(each)

    def _as_wide(self, updates: Sequence[Update]) -> list[Update]:
        """Widens updates, and the global model, to all classes that any client has.

        Args:
            updates: The updates of a round, whose heads may have different numbers of outputs.

        Returns:
            The updates, whose heads have as many outputs as the global model's.
        """
        classes = max(map(width, (self.model, *(update.state for update in updates))))
        self.model = grown(self.model, classes, self._seed)
        return [replace(u, state=grown(u.state, classes, self._seed)) for u in updates]

    def state(self) -> State:
        """Gives the server's whole state, for a checkpoint."""
        return {
            "model": self.model,
            "round": self.round,
            "task": self.task,
            "closing": self.closing,
            # A checkpoint within a secure sum: the same clients must be drawn again.
            "attempt": self._attempt - self._in_round,
            "prototypes": self.prototypes,
            "bounds": self._bounds.state() if self._bounds is not None else {},
            "earlier": self.earlier.state() if self.earlier is not None else {},
            "late": self.late.state() if self.late is not None else {},
            "steps": self.steps.state() if self.steps is not None else {},
            "part": self._part.state() if self._part is not None else None,
        }

    def load_state(self, state: State) -> None:
        """Puts back a state of this server.

        Args:
            state: The state that `state` gave.
        """
        for name, value in state["model"].items():
            self.model[name] = value.to(self.model[name])
        device = next(iter(self.model.values())).device
        self.prototypes = all_to_device(state.get("prototypes", {}), device)
        if self.steps is not None:
            self.steps.load_state(state.get("steps", {}))
        if self.late is not None:
            self.late.load_state(state.get("late", {}), device)
        self.round, self._attempt = int(state["round"]), int(state["attempt"])
        self.task, self.closing = int(state["task"]), bool(state["closing"])
        if self._bounds is not None:
            self._bounds.load_state(state.get("bounds", {}))
        if self.earlier is not None:
            self.earlier.load_state(state.get("earlier", {}))
        if self._part is not None:
            self._part.load_state(state["part"])
