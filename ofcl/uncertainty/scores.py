"""Scores: the uncertainty of a sample from the logits of its perturbed copies.

A `Score` is a function of logits (views, n, classes) to (n,); larger means less certain.
With z_i the logits of copy i and p_i = softmax(z_i), p₍₁₎ the largest and p₍₂₎ the second:

    BI  mean_i LSE(z_i) − LSE(mean_i z_i)
    LC  1 − mean_i p₍₁₎
    MS  1 − mean_i (p₍₁₎ − p₍₂₎)
    RC  mean_i p₍₂₎ / p₍₁₎
    EN  −mean_i Σ_j p_ij log p_ij
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Score = Callable[[Tensor], Tensor]
"""Logits of the copies (views, n, classes) → uncertainty (n,)."""


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
    """Computes LC: one minus the mean probability of the likeliest class."""
    return 1 - logits.softmax(-1).amax(-1).mean(0)


def margin(logits: Tensor) -> Tensor:
    """Computes MS: one minus the mean gap between the two likeliest classes."""
    first, second = _two_likeliest(logits)
    return 1 - (first - second).mean(0)


def ratio_of_confidence(logits: Tensor) -> Tensor:
    """Computes RC: the mean ratio of the second largest probability to the largest."""
    first, second = _two_likeliest(logits)
    return (second / first).mean(0)


def entropy(logits: Tensor) -> Tensor:
    """Computes EN: the mean entropy of the copies' predictions."""
    entropies: Tensor = torch.special.entr(logits.softmax(-1)).sum(-1)
    return entropies.mean(0)


def _two_likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
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

COMPARES_COPIES = {"bi"}
"""Scores of how copies differ; their mean prediction does not tell that."""


def find_score(name: str, average: Literal["scores", "softmax"]) -> Score:
    """Returns the score of a name.

    Args:
        name: A name in `SCORES`.
        average: `scores`: the mean of the copies' scores; `softmax`: the score of the copies' mean
            prediction, for scores that can be computed from it.
    """
    softmax = average == "softmax" and name not in COMPARES_COPIES
    return of_mean_softmax(SCORES[name]) if softmax else SCORES[name]


def of_mean_softmax(score: Score) -> Score:
    """Turns a score into one of the copies' mean prediction, instead of the mean of their scores.

    >>> disagree = torch.tensor([[[9.0, 0.0]], [[0.0, 9.0]]])
    >>> least_confidence(disagree).item() < 0.01, of_mean_softmax(least_confidence)(disagree).item()
    (True, 0.5)
    """

    def scored(logits: Tensor) -> Tensor:
        return score(logits.softmax(-1).mean(0, keepdim=True).log())

    return scored
