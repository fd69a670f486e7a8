"""A client that learns from new samples, and from what the server has made of past tasks.

MFCL and TARGET share it. They differ in their `Lesson`: the loss of a step, and what the server
hands out when a task has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from ofcl.compute.batching import batchable
from ofcl.compute.devices import to_device
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.memory.memory import Memory
from ofcl.methods.learner import measured
from ofcl.methods.proximal import ProximalTerm
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state
from ofcl.uncertainty.change import Change
from ofcl.update import Update


class Lesson(Protocol):
    """The loss of a gradient step, with what the server has made of past tasks."""

    def loss(
        self, model: nn.Module, x: Tensor, y: Tensor, current: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Computes the loss of one gradient step.

        Args:
            model: The client's model.
            x: The new samples.
            y: The classes of the new samples.
            current: The classes of the current task so far.

        Returns:
            The loss, and the logits of the new samples.
        """

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes what the server has made at the end of a task.

        Args:
            global_model: The global model at the end of the task.
            handed: The tensors that the method's server part returned from `end_task`.
        """

    def state(self) -> State:
        """Returns the lesson's state, for a checkpoint; no key of it is one of the learner's."""

    def load_state(self, state: State) -> None:
        """Restores the lesson from what `state` returned; other keys are passed over."""


class TaughtLearner:
    """The learner of a client that the server teaches past tasks.

    Args:
        method: The name of the method, for messages.
        model: The client's model.
        optimizer: The optimiser of the model.
        lesson: The loss of a step, with what the server has made.
        generator: The random generator of draws and augmentations; the lesson draws from it, too.
        steps: Gradient steps for each mini-batch.
        augment: The change of new samples in all steps but the first.
    """

    memory: Memory | None = None

    def __init__(
        self,
        method: str,
        *,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        lesson: Lesson,
        generator: torch.Generator,
        steps: int = 3,
        augment: Change | None = None,
    ) -> None:
        self.model, self.optimizer, self.generator = model, optimizer, generator
        self.lesson, self.steps, self.augment = lesson, steps, augment
        self.penalty: ProximalTerm | None = None
        self._method = method
        self._current: list[int] = []  # classes of the current task

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Takes the gradient steps on the mini-batch and, after the first task, on made images.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.

        Returns:
            The measurements of the mini-batch (`measured`).
        """
        self._current = list(current)
        losses: list[Tensor] = []
        first_logits, y = torch.empty(0), to_device(batch.y, batch.x.device)
        self.model.train()
        for step in range(self.steps):
            x = self.augment(batch.x, self.generator) if step and self.augment else batch.x
            loss, logits = self.lesson.loss(self.model, batchable(x), batchable(y), current)
            if step == 0:
                first_logits = logits[: len(y)].detach()
            losses.append(loss.detach())
            if self.penalty is not None:
                loss = loss + self.penalty()
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return measured(first_logits, y, torch.stack(losses), self.model.parameters())

    def grow(self, classes: int, seed: int) -> None:
        """Raises an error: the head has all classes from the start."""
        raise OfclError(
            f"{self._method} cannot learn classes that nobody announced; use a memory method"
        )

    def before_round(self) -> None:
        """Does nothing: no model from before a round is needed."""

    def after_round(self, global_model: Tensors) -> None:
        """Moves FedProx's anchor to the new global model; does nothing without FedProx.

        Args:
            global_model: The global model's tensors by name.
        """
        if self.penalty is not None:
            self.penalty.after_round(global_model)

    def end_task(self) -> None:
        """Does nothing: what the next task needs comes from the server."""

    def before_test(self) -> None:
        """Does nothing: the model learns from mini-batches alone."""

    def sends(self) -> Tensors:
        """Returns the classes of the current task so far, under the name `now`, for the server."""
        return {"now": torch.tensor(self._current, dtype=torch.long)}

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes the lesson of the next task from the server, and forgets the current classes.

        Args:
            global_model: The global model at the end of the task.
            handed: The tensors that the method's server part returned from `end_task`.
        """
        self.lesson.receives(global_model, handed)
        self._current = []

    def state(self) -> State:
        """Returns the learner's state without the model, for a checkpoint."""
        return {
            "optimizer": optimizer_state(self.optimizer),
            "generator": self.generator.get_state(),
            "now": self._current,
            "anchor": self.penalty.state() if self.penalty is not None else [],
            **self.lesson.state(),
        }

    def load_state(self, state: State) -> None:
        """Restores the learner from what `state` returned."""
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.generator.set_state(state["generator"])
        self._current = list(state["now"])
        if self.penalty is not None:
            self.penalty.load_state(state["anchor"])
        self.lesson.load_state(state)


def add_told(seen: Sequence[int], updates: Sequence[Update]) -> list[int]:
    """Adds the classes that learners tell (`TaughtLearner.sends`) to those that the server knows.

    Args:
        seen: The classes that the server knows.
        updates: The updates of a round's clients.

    Returns:
        All classes, in order.
    """
    return sorted({*seen, *(c for update in updates for c in update.extras["now"].tolist())})
