"""iCaRL (Rebuffi et al. 2017): herding, nearest mean of exemplars, distillation.

The teacher is the last global model (`teacher.py`). Every output is trained as a probability σ of
its own. With g the model's logits, the loss of new and replayed samples is a binary cross-entropy,
summed over all classes that the client has met, and averaged over the samples:

    Σ BCE(σ(g_c), σ(teacher's g_c))   over classes c that the teacher knows
  + Σ BCE(σ(g_c), 1 if c = y else 0)  over the others

The memory keeps, of each class, samples whose mean feature is near that of the whole class
(`memory/herding.py`). Predictions are by the nearest class mean (`classifier = "nearest-mean"`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.memory.herding import HERDING, stands_for_itself
from ofcl.memory.policy import Policy
from ofcl.methods.additions import Step
from ofcl.methods.field.teacher import Teacher
from ofcl.methods.parts import LearnerParts, PolicyParts
from ofcl.methods.replay import Replay


def policy(parts: PolicyParts) -> Policy:
    """Makes the policy of iCaRL: of each class, samples whose mean is that of the class.

    Args:
        parts: The parts that policies are made from; the scorer gives the features of samples.
    """
    return Policy(
        stands_for_itself,
        rekey="on-arrival",
        scorer=parts.make_scorer("lc"),  # any score: its scorer computes features
        choice=HERDING,
    )


def binary_cross_entropy(
    logits: Tensor, y: Tensor, taught: Tensor, known: Tensor, met: Tensor
) -> Tensor:
    """Computes iCaRL's loss (at the top of this file).

    >>> z, y = torch.zeros(1, 3), torch.tensor([1])
    >>> known, met = torch.tensor([True, False, False]), torch.tensor([True, True, False])
    >>> binary_cross_entropy(z, y, z, known, met).item()  # 2 ln 2: the third class is not met
    1.3862...

    Args:
        logits: The model's logits (n, classes).
        y: The classes of the samples (n,).
        taught: The teacher's logits (n, classes).
        known: Whether the teacher knows each class (classes,).
        met: Whether the client has met each class (classes,).
    """
    targets = torch.where(known, taught.sigmoid(), F.one_hot(y, logits.shape[-1]).to(logits))
    each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return (each * met).sum(-1).mean()


@dataclass(frozen=True)
class ClassifierAndRepresentation:
    """The objective of iCaRL.

    Args:
        teacher: The teacher.
    """

    teacher: Teacher

    def __call__(self, step: Step) -> Tensor:
        """Computes the loss of a gradient step (at the top of this file).

        Args:
            step: The step.
        """
        known = self.teacher.known
        # A replayed sample's class may be neither: another client taught it, or it is new.
        met = known | step.current
        met = met.index_fill(0, step.y, True)
        return binary_cross_entropy(step.logits[0], step.y, self.teacher.logits(step.x), known, met)


def learner(parts: LearnerParts) -> Replay:
    """Makes iCaRL's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    teacher = Teacher(parts.model, parts.moment)
    return parts.replay(objective=ClassifierAndRepresentation(teacher), followers=(teacher,))
