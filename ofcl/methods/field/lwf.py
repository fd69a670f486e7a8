"""LwF (Li & Hoiem 2016): learning without forgetting, and without a memory.

The teacher is the last global model (`teacher.py`). With p and q the softmax of the teacher's and
the model's logits, divided by a temperature of 2, over the classes that the teacher knows, the loss
of new samples is

    CE(x, y) − λ · mean Σ p ln q
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ofcl.methods.additions import Step
from ofcl.methods.field.teacher import Teacher
from ofcl.methods.losses import Loss
from ofcl.methods.parts import LearnerParts
from ofcl.methods.replay import Replay

TEMPERATURE = 2.0


def softened_cross_entropy(logits: Tensor, taught: Tensor, known: Tensor) -> Tensor:
    """Computes the cross-entropy of softened predictions among some classes: mean −Σ p ln q.

    >>> known = torch.tensor([True, True, False])
    >>> z = torch.tensor([[0.0, 0.0, 9.0]])
    >>> softened_cross_entropy(z, z, known).item()  # ln 2
    0.6931...

    Args:
        logits: The model's logits (n, classes).
        taught: The teacher's logits (n, classes).
        known: Whether the teacher knows each class (classes,); if it knows none, the result is 0.
    """
    # Not −∞: with no class at all, a softmax of these would not be a number.
    apart = torch.where(known, 0.0, -1e9)
    p = (taught / TEMPERATURE + apart).softmax(-1)
    log_q = (logits / TEMPERATURE + apart).log_softmax(-1)
    return -(p * log_q * known).sum(-1).mean()


@dataclass(frozen=True)
class WithoutForgetting:
    """The objective of LwF.

    Args:
        loss: The run's loss.
        teacher: The teacher.
        weight: The weight λ of the distillation.
    """

    loss: Loss
    teacher: Teacher
    weight: float

    def __call__(self, step: Step) -> Tensor:
        """Computes the loss of a gradient step (at the top of this file).

        Args:
            step: The step.
        """
        logits = step.logits[0]
        loss = self.loss(logits, step.y, step.new, step.current)
        taught = self.teacher.logits(step.x)
        return loss + self.weight * softened_cross_entropy(logits, taught, self.teacher.known)


def learner(parts: LearnerParts) -> Replay:
    """Makes LwF's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    teacher = Teacher(parts.model, parts.moment)
    objective = WithoutForgetting(parts.loss, teacher, parts.lwf_weight)
    return parts.replay(objective=objective, followers=(teacher,))
