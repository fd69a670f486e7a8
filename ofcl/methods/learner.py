"""The contract of a method: how a client learns, and what the server does besides averaging.

Most methods are a memory policy and share one learner (`replay.py`). A generative method brings a
learner of its own, and a part at the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute import foreach
from ofcl.data.stream import Batch
from ofcl.memory.memory import Memory
from ofcl.methods.proximal import ProximalTerm
from ofcl.state import State, Tensors
from ofcl.update import Update


def measured(logits: Tensor, y: Tensor, losses: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Measures how a mini-batch went, on its device, so that nobody has to wait for it.

    Loss and right predictions are from before the mini-batch was learned. A loss that is finite
    says nothing of the last step, so the parameters after it are looked at too.

    Args:
        logits: Of the mini-batch, (…, n, classes): from the first step's forward, in which
            BatchNorm sees the replayed samples too, or from one before it in evaluation mode
            (`test_first`). The leading dimension is that of stacked clients.
        y: The classes of the mini-batch, (…, n).
        losses: The losses of the gradient steps, (…, steps).
        parameters: The model's parameters after the steps; of stacked clients, one client's after
            the other's.

    Returns:
        (…, 3): the mean loss, the number of right predictions, and 1 if every loss and parameter is
        finite, else 0.
    """
    each = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)
    right = (logits.argmax(-1) == y).float().sum(-1)
    sizes = torch.stack(foreach.norms([parameter.detach() for parameter in parameters]))
    sizes = sizes.view(*y.shape[:-1], -1)
    finite = torch.cat([losses, sizes], -1).isfinite().all(-1).float()
    return torch.stack([each.mean(-1), right, finite], -1)


class Learner(Protocol):
    """A method at a client."""

    memory: Memory | None
    penalty: ProximalTerm | None
    """A term that is added to the loss of every step (FedProx)."""

    @property
    def model(self) -> nn.Module:
        """The model that learns."""

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Learns a mini-batch.

        Args:
            batch: The mini-batch.
            current: The classes of its task that have been seen so far.

        Returns:
            The measurement that `measured` makes.
        """

    def grow(self, classes: int, seed: int) -> None:
        """Gives the model outputs for new classes.

        Args:
            classes: How many outputs there are afterwards.
            seed: The run's seed, from which new outputs start.
        """

    def before_round(self) -> None:
        """Is called before the model is mixed with the global one: the last look at it."""

    def after_round(self, global_model: Tensors) -> None:
        """Follows the global model, which the client has just taken, or a share of it."""

    def end_task(self) -> None:
        """Ends a task for this client; a last round of it may still come."""

    def sends(self) -> Tensors:
        """Gives the tensors that an update carries besides the model."""

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes what the server hands out when a task has ended for everybody."""

    def state(self) -> State:
        """Gives everything but the model, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave."""


class ServerPart(Protocol):
    """A method at the server."""

    every_round: bool
    """Whether its generator learns in every round, or at the end of tasks alone."""

    def after_round(self, model: Tensors, updates: Sequence[Update]) -> Tensors:
        """Works on the averaged model; gives the tensors of it that have changed."""

    def end_task(self, model: Tensors) -> Tensors:
        """Ends a task for every client; gives the tensors to hand out besides the model."""

    def pictures(self, each: int) -> dict[int, Tensor]:
        """Makes images of every class, `each` of them, with values from 0 to 1."""

    def state(self) -> State:
        """Gives everything, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave."""
