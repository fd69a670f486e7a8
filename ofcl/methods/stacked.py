"""Clients with small models on a CPU take their gradient steps together.

A step of a small network on twenty vectors is mostly the calls that it is made of. With the weights
of several clients in one tensor, one call does for all. Each client's parameters are views of its
part: whoever looks at the client's model or optimiser sees nothing unusual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn

from ofcl.data.stream import Batch
from ofcl.methods.learner import Learner, measured
from ofcl.methods.replay import Lesson, Replay
from ofcl.models.mlp import MLP
from ofcl.optimizers import step_together
from ofcl.state import Tensors

MOST = 16  # clients together; more at once leave the processor's caches


def stackable(learner: Learner) -> TypeGuard[Replay]:
    """Whether a learner can be stacked: a small network on a CPU, a loss without further terms."""
    return (
        isinstance(learner, Replay)
        and isinstance(learner.model, MLP)
        and learner.penalty is None
        and not next(learner.model.parameters()).is_cuda
    )


class Stack:
    """Replay learners that are alike but for their weights, memories and draws."""

    def __init__(self, learners: Sequence[Replay]) -> None:
        self._learners = list(learners)
        self._weights: Tensors = {}
        self._known: list[int] = []  # the identities of the parameters that are stacked
        self._parameters: list[list[nn.Parameter]] = []

    def learn(self, batches: Sequence[Batch], currents: Sequence[Sequence[int]]) -> list[Tensor]:
        """What every learner would do with its mini-batch; gives what `measured` does for each."""
        taken = list(zip(self._learners, batches, currents, strict=True))
        lessons = [learner.begin(batch, current) for learner, batch, current in taken]
        if self._alike(lessons):
            measurements = self.take_steps(lessons)
        else:
            alone = zip(self._learners, lessons, strict=True)
            measurements = [learner.take_steps(*lesson) for learner, lesson in alone]
        for learner, batch, current in taken:
            learner.end(batch, current)
        return measurements

    def _alike(self, lessons: Sequence[Lesson]) -> bool:
        """Whether the lessons have the same shapes, also those of lone samples and of heads."""
        shapes = {tuple(tensor.shape for tensor in lesson) for lesson in lessons}
        seen = len(lessons[0].x) + lessons[0].places.shape[1]
        return len(shapes) == 1 and seen > 1

    def take_steps(self, lessons: Sequence[Lesson]) -> list[Tensor]:
        """The gradient steps of all lessons."""
        weights, (one, *_) = self._stacked(), self._learners
        y = torch.stack([lesson.y for lesson in lessons])
        current = torch.stack([lesson.current for lesson in lessons])
        first_logits, losses = torch.empty(0), []
        if one.test_first:
            with torch.no_grad():
                first_logits = MLP.stacked(weights, torch.stack([lesson.x for lesson in lessons]))
        taught = zip(self._learners, lessons, strict=True)
        for step in zip(*(learner.seen(lesson) for learner, lesson in taught), strict=True):
            x, labels = (torch.stack(v) for v in zip(*step, strict=True))
            logits = MLP.stacked(weights, x)
            loss = one.loss(logits, labels, y.shape[1], current)
            losses.append(loss.detach())
            if not len(first_logits):
                first_logits = logits[:, : y.shape[1]].detach()
            self._descend(loss.sum())
        return list(measured(first_logits, y, torch.stack(losses, 1), weights.values()))

    def _descend(self, loss: Tensor) -> None:
        """One step of every learner's own optimiser; no client's loss depends on another's."""
        gradients = torch.autograd.grad(loss, list(self._weights.values()))
        for k, own in enumerate(self._parameters):
            for parameter, gradient in zip(own, gradients, strict=True):
                parameter.grad = gradient[k]
        step_together([learner.optimizer for learner in self._learners])

    def _stacked(self) -> Tensors:
        """The weights of all; stacked anew when parameters have been replaced by others."""
        parameters = [list(learner.model.parameters()) for learner in self._learners]
        identities = [id(parameter) for own in parameters for parameter in own]
        if identities != self._known:
            for name, _ in self._learners[0].model.named_parameters():
                own = [learner.model.get_parameter(name) for learner in self._learners]
                together = torch.stack([parameter.detach() for parameter in own])
                for part, parameter in zip(together, own, strict=True):
                    parameter.data = part
                self._weights[name] = together.requires_grad_()
            self._parameters, self._known = parameters, identities
        return self._weights
