"""The contract of a score, which says how uncertain a model is about a sample."""

from __future__ import annotations

import torch
from torch import Tensor

from ofcl.seeds import generator
from ofcl.testing.contract import almost_equal, require, untouched_generators
from ofcl.uncertainty.scores import Score

VIEWS, SAMPLES, CLASSES = 4, 6, 5


def check_score(score: Score) -> None:
    """Checks that a function is a score.

    It returns a finite number for each sample, which is larger where the model is less certain. The
    number depends on the logits of this sample's copies alone. The function draws no random numbers
    and does not change its input.

    Args:
        score: The function, from logits (views, n, classes) to scores (n,).

    Raises:
        ContractBroken: If it does not keep one of these promises.
    """
    draw = generator(0, "score contract")
    logits = 3 * torch.randn(VIEWS, SAMPLES, CLASSES, generator=draw)
    with untouched_generators("a score"):
        for z in (logits, logits[:1], logits[:, :1], logits[:, :, :2], 20 * logits):
            _check_numbers(score, z)
        _check_samples_apart(score, logits)
        _check_direction(score)


def _check_numbers(score: Score, logits: Tensor) -> None:
    """Requires a finite number for each sample, and the same numbers in a second call.

    Args:
        score: The score to check.
        logits: The logits (views, n, classes), which must not change.
    """
    before = logits.clone()
    scores = score(logits)
    shape, n = tuple(logits.shape), logits.shape[1]
    require(
        tuple(scores.shape) == (n,),
        f"a score gives one number for each sample: of logits {shape} came {tuple(scores.shape)}, "
        f"not ({n},)",
    )
    require(
        scores.is_floating_point() and bool(scores.isfinite().all()),
        f"scores are finite numbers; of logits {shape} with values up to "
        f"{logits.abs().max():.0f} came {scores.tolist()}",
    )
    require(torch.equal(logits, before), "a score must not change the logits that it is given")
    require(
        torch.equal(score(logits), scores),
        "the same logits have the same scores; called twice, a score gave different ones",
    )


def _check_samples_apart(score: Score, logits: Tensor) -> None:
    """Requires that a sample's score does not depend on the other samples.

    Args:
        score: The score to check.
        logits: The logits (views, n, classes).
    """
    scores = score(logits)
    require(
        almost_equal(score(logits.flip(1)), scores.flip(0)),
        "scores do not depend on the order of the samples; in reverse order came others",
    )
    alone = torch.cat([score(logits[:, i : i + 1]) for i in range(SAMPLES)])
    require(
        almost_equal(alone, scores),
        "the score of a sample depends on its own copies alone; scored by itself, a sample got "
        f"{alone.tolist()} instead of {scores.tolist()}",
    )


def _check_direction(score: Score) -> None:
    """Requires a smaller score for copies that agree than for copies that disagree."""
    confident = torch.zeros(VIEWS, CLASSES)
    confident[:, 0] = 8.0
    disagreeing = 8.0 * torch.eye(CLASSES)[:VIEWS]
    three = score(torch.stack([confident, disagreeing, disagreeing / 8], 1))
    sure, contrary, unsure = three.tolist()
    require(
        sure < unsure,
        "a larger score means less certain; copies that agree and are sure got "
        f"{sure:.4g}, copies that disagree and are hardly sure {unsure:.4g}",
    )
    require(
        sure <= contrary + 1e-6,
        f"copies that agree are not less certain than copies that disagree: {sure:.4g} and "
        f"{contrary:.4g}",
    )
