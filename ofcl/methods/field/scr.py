"""SCR (Mai et al. 2021): supervised contrastive replay.

The features of new and replayed samples, in two views each, go through a projection p, a small
network that travels with the model. The loss is the supervised contrastive one (Khosla et al. 2020)
of p(features): samples of a class attract each other, all others repel each other. Predictions are
by the nearest class mean of the features (`classifier = "nearest-mean"`).

The head learns beside, by the run's loss on features that it cannot change. So a mini-batch can be
tested before it is learned, and the network learns as if there were no head.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ofcl.methods.additions import Step
from ofcl.methods.losses import Contrast, Loss
from ofcl.methods.parts import LearnerParts
from ofcl.methods.replay import Replay

PROJECTED = 128  # the length of a projection


def projection(model: nn.Module) -> nn.Module:
    """Makes the projection of a model's features: two layers, as the authors have it.

    Args:
        model: A model with a linear `head`.
    """
    head = model.get_submodule("head")
    assert isinstance(head, nn.Linear)
    n = head.in_features
    return nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, PROJECTED))


@dataclass(frozen=True)
class ContrastiveReplay:
    """The objective of SCR.

    Args:
        model: The client's model, with the projection as its companion.
        loss: The loss of the head.
        contrast: The supervised contrastive loss.
    """

    model: nn.Module
    loss: Loss
    contrast: Contrast

    def __call__(self, step: Step) -> Tensor:
        """Computes the loss of a gradient step (at the top of this file).

        Args:
            step: The step.
        """
        views, n = step.logits.shape[:2]
        projected = self.model.companion(step.features)  # type: ignore[operator]
        logits = self.model.head(step.features.detach()).view(views, n, -1)  # type: ignore[operator]
        beside = self.loss(logits, step.y.expand(views, -1), step.new, step.current).mean()
        return self.contrast(projected, step.y.repeat(views)) + beside


def learner(parts: LearnerParts) -> Replay:
    """Makes SCR's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    contrast = Contrast(1.0, parts.temperature)
    objective = ContrastiveReplay(parts.model, parts.loss, contrast)
    return parts.replay(objective=objective, two_views=True)
