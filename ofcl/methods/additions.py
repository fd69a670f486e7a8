"""The parts that a method may add to replay (`replay.py`): an objective, a choice, a follower.

Each is a function of tensors, or a small object. All work on fixed shapes, so that gradient steps
can be captured (`compute/cuda_graphs.py`): a mask takes the place of a selection, and what changes
between mini-batches is a tensor that stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from ofcl.state import State, Tensors


class Step(NamedTuple):
    """A gradient step, as an objective sees it.

    Args:
        x: The inputs of all views (views · n, …): new samples, replayed ones; then second views.
        features: The inputs of the head (views · n, features).
        logits: The logits (views, n, classes).
        y: The classes of the samples (n,).
        new: How many of the n samples are new; the others are replayed.
        current: Whether each class is one of the current task so far (classes,).
        places: The places of the replayed samples in the memory (n − new,).
        is_first: Whether it is the first step of the mini-batch.
    """

    x: Tensor
    features: Tensor
    logits: Tensor
    y: Tensor
    new: int
    current: Tensor
    places: Tensor
    is_first: bool


Objective = Callable[[Step], Tensor]
"""The loss of a gradient step, in place of the run's loss and contrastive term."""

Adjust = Callable[[list[Tensor], bool], list[Tensor]]
"""The gradients of the parameters that learn, in the model's order, and whether it is the first
step of the mini-batch → the gradients that the optimiser gets."""

Choose = Callable[[Tensor, Tensor, int, int], Tensor]
"""The inputs (n, …) of a step (new samples, then candidates for replay), their classes (n,), how
many are new, and how many candidates are wanted → the indices of those among the candidates."""


class Follower(Protocol):
    """A part of a learner that follows the run: it hears of mini-batches, rounds, tasks, classes.

    A learner calls all followers, in their order, after it has done the same itself.
    """

    def before_steps(self, samples: int, current: Tensor) -> None:
        """Is called before the gradient steps of a mini-batch.

        Args:
            samples: How many samples the mini-batch has.
            current: Whether each class is one of the current task so far (classes,), on the CPU.
        """

    def after_steps(self, samples: int) -> None:
        """Is called when a mini-batch has been learned and offered to the memory.

        Args:
            samples: How many samples the mini-batch has.
        """

    def grow(self, classes: int, seed: int) -> None:
        """Is called when the model has got outputs for new classes.

        Args:
            classes: How many outputs there are now.
            seed: The run's seed, from which the weights of new outputs are drawn.
        """

    def after_round(self, global_model: Tensors) -> None:
        """Is called after the client has taken the global model, or a share of it.

        Args:
            global_model: The global model's tensors by name.
        """

    def end_task(self) -> None:
        """Is called when the client's task has ended; the task's closing round may still come."""

    def state(self) -> State:
        """Returns the state of this part, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Restores this part from what `state` returned."""
