"""FedCIL: the terms of its losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.models.generators import ACGAN


def told_apart(real: Tensor, is_real: bool) -> Tensor:
    """Binary cross-entropy of the critic's verdicts (n, 1) that images are real."""
    wanted = torch.full_like(real, float(is_real))
    return F.binary_cross_entropy_with_logits(real, wanted)


def critic_loss(
    gan: ACGAN, x: Tensor, y: Tensor, made: Tensor, made_y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Real images are real and of their class, made ones made and of theirs.

    Also gives the class logits of both.
    """
    features, made_features = gan.features(x), gan.features(made.detach())
    logits, made_logits = gan.head(features), gan.head(made_features)
    loss = (
        told_apart(gan.real(features), True)
        + F.cross_entropy(logits, y)
        + told_apart(gan.real(made_features), False)
        + F.cross_entropy(made_logits, made_y)
    )
    return loss, logits, made_logits


def generator_loss(gan: ACGAN, made: Tensor, made_y: Tensor) -> Tensor:
    """Made images pass for real ones, and for their class."""
    features = gan.features(made)
    return told_apart(gan.real(features), True) + F.cross_entropy(gan.head(features), made_y)


def divergence(target: Tensor, logits: Tensor) -> Tensor:
    """KL(p ‖ p̂) from the logits of both; the target is not moved."""
    p, p_hat = target.detach().log_softmax(1), logits.log_softmax(1)
    return F.kl_div(p_hat, p, reduction="batchmean", log_target=True)
