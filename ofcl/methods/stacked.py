"""Gradient steps of several clients at once, for small models on a CPU.

A step of a small network on twenty vectors spends most of its time in the overhead of its calls.
With the weights of several clients in one tensor, one call computes for all of them
(`models/stacked_weights.py`). Scores of several clients are computed together in the same way
(`stacked_keys.py`). Results differ by rounding from those of clients that learn one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from ofcl.compute.optimizers import SGD, Adam, step_together
from ofcl.data.stream import Batch
from ofcl.methods.learner import Learner, measured
from ofcl.methods.replay import Lesson, Replay
from ofcl.methods.stacked_keys import set_keys_together
from ofcl.models.mlp import MLP
from ofcl.models.stacked_weights import StackedWeights
from ofcl.state import Tensors

MOST = 16  # clients together; more at once leave the processor's caches


class Taught(NamedTuple):
    """A learner with the lesson that it is about to learn."""

    learner: Replay
    lesson: Lesson


def stackable(learner: Learner) -> TypeGuard[Replay]:
    """Says whether a learner can be stacked: `Replay` with an MLP on a CPU, without FedProx.

    An optimiser of a user's own takes its steps by itself.
    """
    return (
        isinstance(learner, Replay)
        and isinstance(learner.model, MLP)
        and learner.penalty is None
        and isinstance(learner.optimizer, SGD | Adam)
        and next(learner.model.parameters()).device.type == "cpu"
    )


def by_shape(taught: Sequence[Taught]) -> list[list[int]]:
    """Groups lessons whose tensors have the same shapes, so that they can be stacked.

    Lessons for heads of different sizes are in different groups, as `Lesson.current` has one value
    for each class.

    Args:
        taught: The learners with their lessons.

    Returns:
        For each group, the places of its lessons in `taught`.
    """
    places = defaultdict(list)
    for place, (_, lesson) in enumerate(taught):
        places[tuple(tensor.shape for tensor in lesson)].append(place)
    return list(places.values())


class Stack:
    """Lets several replay learners learn at once, as one computation on stacked weights.

    The learners may differ in their weights, memories and draws alone. Each call may have other
    learners; then their weights are stacked anew.
    """

    def __init__(self) -> None:
        self._stack, self._scoring = StackedWeights(), StackedWeights()
        self._weights: Tensors = {}  # of those that take a step
        self._teacher_weights = torch.empty(0)  # of each learner's distillation

    def learn(
        self,
        learners: Sequence[Replay],
        batches: Sequence[Batch],
        currents: Sequence[Sequence[int]],
    ) -> list[Tensor]:
        """Lets each learner learn its mini-batch, as it would alone.

        Args:
            learners: The learners.
            batches: A mini-batch for each learner.
            currents: For each learner, the classes of its current task that it has seen so far.

        Returns:
            For each learner, the measurement (3,) that `measured` makes.
        """
        taken = list(zip(learners, batches, currents, strict=True))
        taught = [Taught(learner, learner.lesson(batch, now)) for learner, batch, now in taken]
        self.remember(taken, ahead=True)
        measurements: dict[int, Tensor] = {}
        for places in by_shape(taught):
            given = self.take_steps([taught[place] for place in places])
            measurements |= zip(places, given, strict=True)
        self.remember(taken, ahead=False)
        return [measurements[place] for place in range(len(taken))]

    def remember(
        self, taken: Sequence[tuple[Replay, Batch, Sequence[int]]], *, ahead: bool
    ) -> None:
        """Offers mini-batches to the learners' memories, and computes all their keys together.

        Args:
            taken: Each learner, its mini-batch, and the classes of its current task so far.
            ahead: Which memories are offered their mini-batch. True: those whose keys are computed
                before the gradient steps; False: those whose keys are computed after them.
        """
        memories, unkeyed = [], []
        for learner, batch, now in taken:
            if (memory := learner.memory) is not None and memory.ahead == ahead:
                memories.append(memory)
                unkeyed.append(memory.offer(batch.x, batch.y, batch.task, now))
        set_keys_together(memories, unkeyed, self._scoring)

    def take_steps(self, taught: Sequence[Taught]) -> list[Tensor]:
        """Takes the gradient steps of several learners at once.

        Args:
            taught: The learners with their lessons, whose tensors have the same shapes.

        Returns:
            For each learner, the measurement (3,) that `measured` makes.
        """
        if len(taught) == 1:
            ((learner, lesson),) = taught
            return [learner.take_steps(*lesson)]
        learners, lessons = zip(*taught, strict=True)
        self._weights = self._stack.gather([learner.model for learner in learners])
        y = torch.stack([lesson.y for lesson in lessons])
        current = torch.stack([lesson.current for lesson in lessons])
        first_logits, losses = torch.empty(0), []
        if learners[0].test_first:
            with torch.no_grad():
                x = torch.stack([lesson.x for lesson in lessons])
                first_logits = MLP.stacked(self._weights, x)
        every = zip(*(learner.seen(lesson) for learner, lesson in taught), strict=True)
        # (steps, learners, n, …)
        inputs, classes = (torch.stack(parts, 1) for parts in every)
        new = y.shape[1]
        targets = self._targets(learners, inputs[:, :, new : classes.shape[2]])
        for x, labels, target in zip(inputs, classes, targets, strict=True):
            logits, loss = self._step_loss(learners[0], x, labels, new, current)
            if (distillation := learners[0].distillation) is not None and target.numel():
                term = distillation.divergence(logits[:, new:], target)
                loss = loss + self._teacher_weights * term
            losses.append(loss.detach())
            if not len(first_logits):
                first_logits = logits[:, :new].detach()
            self._descend(loss.sum(), [learner.optimizer for learner in learners])
        return list(measured(first_logits, y, torch.stack(losses, 1), self._stack.parameters))

    @torch.no_grad()
    def _targets(self, learners: Sequence[Replay], replayed: Tensor) -> Tensor:
        """Computes the teachers' logits of the replayed samples.

        Args:
            learners: The learners, each with a teacher (`distillation`), or all without.
            replayed: The replayed samples (steps, learners, n, …).

        Returns:
            The logits (steps, learners, n, classes); empty, (steps, 0), without teachers or without
            replayed samples.
        """
        taught = [each.distillation for each in learners if each.distillation is not None]
        if not taught or not replayed.shape[2]:
            return replayed.new_empty(len(replayed), 0)
        self._teacher_weights = torch.stack([each.weight for each in taught])
        weights = {
            name: torch.stack([each.teacher.get_parameter(name) for each in taught])
            for name in self._weights
        }
        steps, _, n = replayed.shape[:3]
        logits = MLP.stacked(weights, replayed.transpose(0, 1).flatten(1, 2))
        return logits.view(len(taught), steps, n, -1).transpose(0, 1)

    def _step_loss(
        self, alike: Replay, x: Tensor, labels: Tensor, new: int, current: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes all learners' logits and losses in one gradient step, without distillation.

        Args:
            alike: Any one of the learners; they all have its loss and its contrastive term.
            x: The inputs (learners, views · n, …).
            labels: The classes of the first view (learners, n).
            new: How many of the n samples are new; the others are replayed.
            current: Whether each class is one of the learner's current task (learners, classes).

        Returns:
            The logits of the first view (learners, n, classes), and the losses (learners,).
        """
        features = MLP.stacked_features(self._weights, x)
        logits = MLP.stacked_head(self._weights, features)
        logits = logits.view(len(labels), alike.views, labels.shape[1], -1)
        of_views = labels.unsqueeze(1).expand(-1, alike.views, -1)
        loss = alike.loss(logits, of_views, new, current.unsqueeze(1)).mean(1)
        if alike.contrast is not None:
            loss = loss + alike.contrast(features, labels.repeat(1, alike.views))
        return logits[:, 0], loss

    def _descend(self, loss: Tensor, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Takes one gradient step of all learners, each with its own optimiser.

        Args:
            loss: The sum of the learners' losses; each depends on the weights of its learner alone.
            optimizers: The optimiser of each learner.
        """
        gradients = torch.autograd.grad(loss, list(self._weights.values()))
        own = (part for parts in zip(*gradients, strict=True) for part in parts)
        for parameter, gradient in zip(self._stack.parameters, own, strict=True):
            parameter.grad = gradient
        step_together(optimizers)
