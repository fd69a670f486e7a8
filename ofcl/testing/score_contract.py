"""The contract of a score: logits of a sample's copies → how uncertain the model is about it."""

from __future__ import annotations

import torch
from torch import Tensor

from ofcl.seeds import generator
from ofcl.testing.contract import almost_equal, require, untouched_generators
from ofcl.uncertainty.scores import Score

VIEWS, SAMPLES, CLASSES = 4, 6, 5


def check_score(score: Score) -> None:
    """Checks that a function is a score, whatever logits it gets.

    It gives a finite number for each sample, larger where the model is less certain, which depends
    on the logits of this sample's copies alone. It draws nothing and leaves its input as it was.

    Args:
        score: A function of logits (views, n, classes) to (n,).

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
    """Compares a sure prediction with copies that disagree, surely and hardly sure."""
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
