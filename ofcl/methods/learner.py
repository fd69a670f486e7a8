"""The contract of a method: how a client learns, and what the server does besides averaging.

Most methods are a memory policy and share one learner (`replay.py`), to which some add parts
(`additions.py`). A generative method brings a learner of its own, and a part at the server.
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
    """Measures how a mini-batch went, as a tensor on its device, without waiting for the device.

    Loss and right predictions are from before the mini-batch was learned. A loss that is finite
    says nothing of the last step, so the parameters after it are looked at too.

    Args:
        logits: The logits of the mini-batch (…, n, classes): from the first step's forward, in
            which BatchNorm sees the replayed samples too, or from a forward before it in evaluation
            mode (`test_first`). The leading dimension is that of stacked clients.
        y: The classes of the mini-batch (…, n).
        losses: The losses of the gradient steps (…, steps).
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
    """The part of a method that runs at a client: it trains the client's model."""

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
            seed: The run's seed, from which the weights of new outputs are drawn.
        """

    def before_round(self) -> None:
        """Is called before the global model, or a share of it, replaces the client's own model."""

    def after_round(self, global_model: Tensors) -> None:
        """Is called after the client has taken the global model, or a share of it.

        Args:
            global_model: The global model's tensors by name.
        """

    def end_task(self) -> None:
        """Is called when the client's task has ended; the task's closing round may still come."""

    def before_test(self) -> None:
        """Is called before the client's own model is sent for a closing round, or is tested.

        Most learners do nothing. One that learns when it is asked to predict learns now.
        """

    def sends(self) -> Tensors:
        """Returns the tensors by name that an update carries besides the model; often none."""

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Is called when a task has ended for every client, before the next one begins.

        Args:
            global_model: The global model's tensors by name.
            handed: The tensors that the method's server part returned from `end_task`.
        """

    def state(self) -> State:
        """Returns the learner's state without the model, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Restores the learner from what `state` returned."""


class ServerPart(Protocol):
    """The part of a method that runs at the server, besides averaging."""

    every_round: bool
    """Whether its generator learns in every round, or at the end of tasks alone."""

    def after_round(self, model: Tensors, updates: Sequence[Update]) -> Tensors:
        """Works on the averaged model after a round.

        Args:
            model: The averaged model's tensors by name.
            updates: The updates that were averaged.

        Returns:
            The tensors of the model that have changed, by name; often none.
        """

    def end_task(self, model: Tensors) -> Tensors:
        """Is called when a task has ended for every client.

        Args:
            model: The global model's tensors by name.

        Returns:
            The tensors by name that every client gets besides the model (`Learner.receives`).
        """

    def pictures(self, each: int) -> dict[int, Tensor]:
        """Makes images of every class seen so far, for people to look at.

        Args:
            each: How many images to make of each class.

        Returns:
            By class, images (n, C, H, W) with values from 0 to 1; n may be less than `each`.
        """

    def state(self) -> State:
        """Returns the state of the server part, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Restores the server part from what `state` returned."""
