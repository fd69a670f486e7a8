"""DER++ (Buzzega et al. 2020): a sample is remembered with the logits that the model had for it.

Every gradient step has a mini-batch (x, y) and two lots that are drawn from the memory, each by
itself: (x', z') with the remembered logits, and (x″, y″). With h the model's logits, the loss is

    CE(x, y) + α · mean (h(x') − z')² + β · CE(x″, y″)

The remembered logits are those of the first gradient step, before it changes the model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ofcl.memory.memory import Memory
from ofcl.memory.store import LOGITS
from ofcl.methods.additions import Step
from ofcl.methods.losses import Loss
from ofcl.methods.parts import LearnerParts
from ofcl.methods.replay import Replay
from ofcl.state import State, Tensors

LOTS = 2


def squared_distance(logits: Tensor, remembered: Tensor) -> Tensor:
    """Computes the mean squared difference from remembered logits, over those that are known.

    >>> nan = float("nan")
    >>> squared_distance(torch.tensor([[3.0, 1.0, 9.0]]), torch.tensor([[1.0, 1.0, nan]])).item()
    2.0

    Args:
        logits: The model's logits (n, classes).
        remembered: The remembered logits (n, classes); NaN for classes that were not known then.
    """
    known = ~remembered.isnan()
    differences = (logits - remembered.nan_to_num()) * known
    return differences.square().sum() / known.sum().clamp_min(1)


class DarkExperience:
    """The objective of DER++, which also gives the memory the logits (a `Follower`).

    Args:
        memory: The client's memory.
        loss: The run's loss, of new and of replayed samples.
        alpha: The weight α of the remembered logits.
        beta: The weight β of the replayed samples' loss.
    """

    def __init__(self, memory: Memory, loss: Loss, alpha: float, beta: float) -> None:
        self._memory, self._loss, self._alpha, self._beta = memory, loss, alpha, beta
        # By the number of samples: a captured step writes to the same tensor again and again.
        self._rooms: dict[int, Tensor] = {}
        self._room = torch.empty(0)  # for the logits of this mini-batch

    def objective(self, step: Step) -> Tensor:
        """Computes the loss of a gradient step (at the top of this file).

        Args:
            step: The step; the first half of its replayed samples is the lot with logits.
        """
        logits, y, new = step.logits[0], step.y, step.new
        if step.is_first:
            self._room.copy_(logits[: len(self._room)].detach())  # a lone sample may be doubled
        loss = self._loss(logits[:new], y[:new], new, step.current)
        if not len(step.places):
            return loss
        lot = len(step.places) // LOTS
        if self._memory.has(LOGITS):
            remembered = self._memory.extras_at(LOGITS, step.places[:lot])
            distance = squared_distance(logits[new : new + lot], remembered)
            loss = loss + self._alpha * distance
        second = slice(new + lot, None)
        return loss + self._beta * self._loss(logits[second], y[second], 0, step.current)

    def before_steps(self, samples: int, current: Tensor) -> None:
        """Makes room for the logits of a mini-batch, outside of a captured step.

        Args:
            samples: How many samples the mini-batch has.
            current: Whether each class is one of the current task so far (classes,).
        """
        if samples not in self._rooms:
            self._rooms[samples] = torch.empty(samples, len(current), device=self._memory.device)
        self._room = self._rooms[samples]

    def after_steps(self, samples: int) -> None:
        """Gives the memory the logits that the mini-batch had in the first step.

        Args:
            samples: How many samples the mini-batch has.
        """
        self._memory.attach({LOGITS: self._rooms[samples].clone()})

    def grow(self, classes: int, seed: int) -> None:
        """Makes room for more logits; those that are remembered grow in the memory.

        Args:
            classes: How many outputs there are now.
            seed: Not used; every follower takes it.
        """
        self._rooms.clear()

    def after_round(self, global_model: Tensors) -> None:
        """Does nothing: remembered logits stay as they were."""

    def end_task(self) -> None:
        """Does nothing: DER++ needs no tasks."""

    def state(self) -> State:
        """Returns nothing: the memory has the logits."""
        return {}

    def load_state(self, state: State) -> None:
        """Does nothing: the memory has the logits."""


def learner(parts: LearnerParts) -> Replay:
    """Makes DER++'s learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    assert parts.memory is not None
    dark = DarkExperience(parts.memory, parts.loss, parts.der_alpha, parts.der_beta)
    return parts.replay(objective=dark.objective, lots=LOTS, followers=(dark,))
