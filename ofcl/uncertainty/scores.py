"""Scores: the uncertainty of a sample from the logits of its perturbed copies.

A `Score` is a function of logits (views, n, classes) to (n,); larger means less certain.
With z_i the logits of copy i and p_i = softmax(z_i), p₍₁₎ the largest and p₍₂₎ the second:

    BI  mean_i LSE(z_i) − LSE(mean_i z_i)
    LC  1 − mean_i p₍₁₎
    MS  1 − mean_i (p₍₁₎ − p₍₂₎)
    RC  mean_i p₍₂₎ / p₍₁₎
    EN  −mean_i Σ_j p_ij log p_ij

A `LabelledScore` knows the label y too:

    loss  −mean_i log p_iy
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.own_parts.lookup import find_function, find_part, required_parameters, takes

Score = Callable[[Tensor], Tensor]
"""Logits of the copies (views, n, classes) → uncertainty (n,)."""

LabelledScore = Callable[[Tensor, Tensor], Tensor]
"""Logits of the copies (views, n, classes), classes (n,) → uncertainty (n,)."""


def bregman_information(logits: Tensor) -> Tensor:
    """Computes BI: how much the copies' predictions disagree; 0 when they are all the same.

    >>> bregman_information(torch.tensor([[[2.0, 0.0]], [[0.0, 2.0]]]))  # copies that disagree
    tensor([0.4338])

    Args:
        logits: The logits of the perturbed copies of n samples, (views, n, classes).

    Returns:
        mean_i LSE(z_i) − LSE(mean_i z_i) of each sample, (n,).
    """
    # LSE is convex, so the difference is ≥ 0; rounding may take it just below.
    mean_lse, lse_mean = logits.logsumexp(-1).mean(0), logits.mean(0).logsumexp(-1)
    return torch.clamp(mean_lse - lse_mean, min=0)


def least_confidence(logits: Tensor) -> Tensor:
    """Computes LC: one minus the mean probability of the likeliest class.

    Args:
        logits: The logits of the perturbed copies of n samples, (views, n, classes).

    Returns:
        The score of each sample, (n,).
    """
    return 1 - logits.softmax(-1).amax(-1).mean(0)


def margin(logits: Tensor) -> Tensor:
    """Computes MS: one minus the mean gap between the probabilities of the two likeliest classes.

    Args:
        logits: The logits of the perturbed copies of n samples, (views, n, classes).

    Returns:
        The score of each sample, (n,).
    """
    first, second = _two_likeliest(logits)
    return 1 - (first - second).mean(0)


def ratio_of_confidence(logits: Tensor) -> Tensor:
    """Computes RC: the mean ratio of the second largest probability to the largest.

    Args:
        logits: The logits of the perturbed copies of n samples, (views, n, classes).

    Returns:
        The score of each sample, (n,).
    """
    first, second = _two_likeliest(logits)
    return (second / first).mean(0)


def entropy(logits: Tensor) -> Tensor:
    """Computes EN: the mean entropy of the copies' predictions.

    Args:
        logits: The logits of the perturbed copies of n samples, (views, n, classes).

    Returns:
        The score of each sample, (n,).
    """
    entropies: Tensor = torch.special.entr(logits.softmax(-1)).sum(-1)
    return entropies.mean(0)


def mean_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Computes the mean cross-entropy of the copies' predictions with the label.

    The expected loss of a prediction is the noise of the label, plus the bias, plus the variance of
    the prediction (Gruber & Buettner 2023); BI estimates the variance alone. A sample with a wrong
    label, or one that nobody can recognise, has a large loss even if all copies agree.

    >>> mean_loss(torch.tensor([[[4.0, 0.0]], [[4.0, 0.0]]]), torch.tensor([1]))
    tensor([4.0181])

    Args:
        logits: The logits of the perturbed copies of n samples, (views, n, classes).
        y: The class that the label of each sample names (n,).

    Returns:
        The score of each sample, (n,).
    """
    each = F.cross_entropy(logits.flatten(0, 1), y.repeat(len(logits)), reduction="none")
    return each.view(logits.shape[:2]).mean(0)


def _two_likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the largest and the second largest probability of each copy, (views, n) each."""
    first, second = logits.softmax(-1).topk(2, dim=-1).values.unbind(-1)
    return first, second


SCORES: dict[str, Score] = {
    "bi": bregman_information,
    "lc": least_confidence,
    "ms": margin,
    "rc": ratio_of_confidence,
    "en": entropy,
}
"""Every score by name. A new one is a function and a line here."""

LABELLED_SCORES: dict[str, LabelledScore] = {"loss": mean_loss}
"""Every score by name that depends on the label too."""

COMPARES_COPIES = {"bi"}
"""The scores that measure how copies differ, which cannot be seen from their mean prediction."""


def find_score(name: str, average: Literal["scores", "softmax"]) -> Callable[..., Tensor]:
    """Returns the score of a name: a `Score` or a `LabelledScore`.

    Args:
        name: A name in `SCORES` or `LABELLED_SCORES`, or that of a user's own score.
        average: `scores`: the mean of the copies' scores; `softmax`: the score of the copies' mean
            prediction. Scores in `COMPARES_COPIES`, and a user's own, are taken as they are.
    """
    known: dict[str, Callable[..., Tensor]] = {**SCORES, **LABELLED_SCORES}
    if name not in known:
        return _own_score(name, find_function("score", name, {}))
    softmax = average == "softmax" and name not in COMPARES_COPIES
    return of_mean_softmax(known[name]) if softmax else known[name]


def _own_score(name: str, part: Callable[..., Any]) -> Callable[..., Tensor]:
    """Makes a score of a user's own function, whose results are looked at.

    Args:
        name: The name that the settings have, for messages.
        part: The function of logits, or of logits and classes.
    """
    if not takes(part, "logits") and not takes(part, "logits", "y"):
        raise OfclError(f"the score '{name}' must be a function of logits (views, n, classes), or "
                        "of these and classes (n,)")  # fmt: skip

    def score(logits: Tensor, *y: Tensor) -> Tensor:
        values = part(logits, *y)
        if not isinstance(values, Tensor) or values.shape != logits.shape[1:2]:
            came = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise OfclError(f"the score '{name}' must return a number for each sample, "
                            f"({logits.shape[1]},); it returned {came}")  # fmt: skip
        return values

    return score


def is_labelled(name: str) -> bool:
    """Says whether a score knows the label too; a user's own does if it takes two arguments.

    Args:
        name: The name of the score.
    """
    if name in SCORES or name in LABELLED_SCORES:
        return name in LABELLED_SCORES
    return required_parameters(find_part("score", name, {})) == 2


def of_mean_softmax(score: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Turns a score into the score of the copies' mean prediction.

    >>> disagree = torch.tensor([[[9.0, 0.0]], [[0.0, 9.0]]])
    >>> least_confidence(disagree).item() < 0.01, of_mean_softmax(least_confidence)(disagree).item()
    (True, 0.5)

    Args:
        score: A `Score` or a `LabelledScore`, which averages over the copies.

    Returns:
        A function with the same parameters.
    """

    def scored(logits: Tensor, *y: Tensor) -> Tensor:
        return score(logits.softmax(-1).mean(0, keepdim=True).log(), *y)

    return scored
