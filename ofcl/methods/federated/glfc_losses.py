"""GLFC (Dong et al. 2022): gradient compensation, relation distillation, a sign of new classes.

With σ(z) the sigmoid of the logits, y a sample's class as a one-hot vector, and BCE the binary
cross-entropy of every output, summed over the classes seen so far:

    compensation   mean over samples of w · BCE(z, y),    w = g / mean of g in the sample's group,
                   g = |σ(z_y) − 1|;  the groups are the samples of old and of new classes
    relations      mean over samples of BCE(z, y'),
                   y' = σ(z') of the old model at old classes, and y at new ones

The loss is half of each (`glfc_client`). While there is no old class, w is 1 and there are no
relations.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def compensation_weights(logits: Tensor, y: Tensor, old: Tensor) -> Tensor:
    """Computes the weights w (n,) that give old and new classes the same mean gradient.

    >>> logits, y = torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1])
    >>> compensation_weights(logits, y, torch.tensor([True, False]))
    tensor([1., 1.])

    Args:
        logits: The logits (n, classes); no gradient flows through the weights.
        y: The classes of the samples (n,).
        old: Whether each class is an old one (classes,).
    """
    size = 1 - logits.detach().gather(1, y[:, None])[:, 0].sigmoid()  # g
    is_old = old[y]
    mean = torch.where(is_old, _mean(size, is_old), _mean(size, ~is_old))
    weights = size / mean.clamp_min(torch.finfo(size.dtype).tiny)
    return torch.where(old.any(), weights, torch.ones_like(weights))


def compensation_loss(logits: Tensor, y: Tensor, old: Tensor, seen: Tensor) -> Tensor:
    """Computes the class-aware gradient compensation term.

    Args:
        logits: The logits (n, classes).
        y: The classes of the samples (n,).
        old: Whether each class is an old one (classes,).
        seen: Whether each class has been seen so far (classes,).
    """
    wanted = F.one_hot(y, logits.shape[1]).to(logits)
    return (compensation_weights(logits, y, old) * _summed(logits, wanted, seen)).mean()


def relation_loss(
    logits: Tensor, y: Tensor, old_logits: Tensor, old: Tensor, seen: Tensor
) -> Tensor:
    """Computes the relation distillation term.

    Args:
        logits: The logits (n, classes).
        y: The classes of the samples (n,).
        old_logits: The old model's logits of the same samples (n, classes).
        old: Whether each class is an old one (classes,).
        seen: Whether each class has been seen so far (classes,).
    """
    wanted = torch.where(old, old_logits.sigmoid(), F.one_hot(y, logits.shape[1]).to(logits))
    return _summed(logits, wanted, seen).mean()


def mean_entropy(logits: Tensor) -> Tensor:
    """Computes the mean entropy of predictions, whose sudden rise is the sign of new classes.

    >>> round(mean_entropy(torch.zeros(3, 4)).item(), 4)  # ln 4
    1.3863

    Args:
        logits: The logits (n, classes).
    """
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1).mean()


def _summed(logits: Tensor, wanted: Tensor, seen: Tensor) -> Tensor:
    """Computes the binary cross-entropy of each sample (n,), summed over the classes seen so far.

    Args:
        logits: The logits (n, classes).
        wanted: The wanted probability of each output (n, classes).
        seen: Whether each class has been seen so far (classes,).
    """
    each = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    return (each * seen).sum(1)


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """Computes the mean of chosen values; 0 if none is chosen."""
    return (values * chosen).sum() / chosen.sum().clamp_min(1)
