"""FedCIL: the losses of an ACGAN's critic and generator.

With D(x) the critic's verdict that x is real, x a real image of class y, and x' a made one of
class y':

    critic      −ln D(x) − ln(1 − D(x')) + CE(x, y) + CE(x', y')
    generator   −ln D(x') + CE(x', y')

The terms for consistency with the server are in `fedcil_client`; they use `divergence`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.models.generators import ACGAN


def verdict_loss(verdicts: Tensor, is_real: bool) -> Tensor:
    """Computes the binary cross-entropy of the critic's verdicts on images, all real or all made.

    Args:
        verdicts: The critic's logits (n, 1) that the images are real.
        is_real: Whether the images count as real or as made.
    """
    wanted = torch.full_like(verdicts, float(is_real))
    return F.binary_cross_entropy_with_logits(verdicts, wanted)


def critic_loss(
    gan: ACGAN, x: Tensor, y: Tensor, made: Tensor, made_y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the critic's loss (at the top of this file).

    Args:
        gan: The ACGAN with the critic.
        x: Real images.
        y: The classes of the real images.
        made: Made images; no gradient flows to the generator.
        made_y: The classes of the made images.

    Returns:
        The loss, the class logits of the real images, and the class logits of the made images.
    """
    features, made_features = gan.features(x), gan.features(made.detach())
    logits, made_logits = gan.head(features), gan.head(made_features)
    loss = (
        verdict_loss(gan.real(features), True)
        + F.cross_entropy(logits, y)
        + verdict_loss(gan.real(made_features), False)
        + F.cross_entropy(made_logits, made_y)
    )
    return loss, logits, made_logits


def generator_loss(gan: ACGAN, made: Tensor, made_y: Tensor) -> Tensor:
    """Computes the generator's loss: made images shall pass for real, and for their class.

    Args:
        gan: The ACGAN.
        made: Images that its generator has made.
        made_y: The classes of these images.
    """
    features = gan.features(made)
    return verdict_loss(gan.real(features), True) + F.cross_entropy(gan.head(features), made_y)


def divergence(target: Tensor, logits: Tensor) -> Tensor:
    """Computes the Kullback–Leibler divergence KL(p ‖ p̂) of predictions, as a mean over samples.

    Args:
        target: The logits of p, through which no gradient flows.
        logits: The logits of p̂.
    """
    p, p_hat = target.detach().log_softmax(1), logits.log_softmax(1)
    return F.kl_div(p_hat, p, reduction="batchmean", log_target=True)
