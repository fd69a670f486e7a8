"""The contract of a method: how a client learns, and what the server does besides averaging.

Most methods are a memory policy and share one learner (`replay.py`). A generative method brings a
learner of its own, and a part at the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.data.stream import Batch
from ofcl.memory.memory import Memory
from ofcl.state import State, Tensors
from ofcl.update import Update


class Learning(NamedTuple):
    """How a mini-batch went: loss and right predictions on it from before it was learned.

    Both are of the first step's forward, in which BatchNorm sees the replayed samples too, or with
    `test_first` of one before it in evaluation mode.
    """

    loss: float
    correct: int
    finite: bool  # neither a loss nor a parameter is infinite or not a number


def measured(logits: Tensor, y: Tensor, losses: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """The numbers of a `Learning` (…, 3), left on the device: nobody waits for them there.

    From the logits (…, n, classes) and labels (…, n) of the mini-batch, the losses (…, steps) of
    the steps, and the parameters after them: a loss is from before a step, what the last one did is
    seen in the parameters. The leading dimension is that of stacked clients, whose parameters
    follow each other.
    """
    each = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)
    right = (logits.argmax(-1) == y).float().sum(-1)
    sizes = torch.stack(torch._foreach_norm([parameter.detach() for parameter in parameters]))
    sizes = sizes.view(*y.shape[:-1], -1)
    finite = torch.cat([losses, sizes], -1).isfinite().all(-1).float()
    return torch.stack([each.mean(-1), right, finite], -1)


class Learner(Protocol):
    """A method at a client."""

    memory: Memory | None
    penalty: Callable[[], Tensor] | None  # added to the loss of every step (FedProx)

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Learns a mini-batch; `current` are the classes of its task that have been seen.

        Gives what `measured` does.
        """

    def grow(self, classes: int, seed: int) -> None:
        """Gives the model outputs for new classes."""

    def before_round(self) -> None:
        """The client is about to take the global model."""

    def after_round(self, global_model: Tensors) -> None:
        """The client has taken the global model, or a share of it."""

    def end_task(self) -> None:
        """The client has finished a task; a last round of it may still come."""

    def sends(self) -> Tensors:
        """What an update carries besides the model."""

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """The task has ended for everybody; `handed` is what the server hands out for the next."""

    def state(self) -> State:
        """Everything but the model, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""


class ServerPart(Protocol):
    """A method at the server."""

    every_round: bool
    """Whether its generator learns in every round, or at the end of tasks alone."""

    def after_round(self, model: Tensors, updates: Sequence[Update]) -> Tensors:
        """Works on the averaged model; gives the tensors of it that have changed."""

    def end_task(self, model: Tensors) -> Tensors:
        """A task has ended for every client; gives what to hand out besides the model."""

    def pictures(self, each: int) -> dict[int, Tensor]:
        """Images that its generator makes, so many of each class, with values from 0 to 1."""

    def state(self) -> State:
        """Everything, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
