"""The gap to joint training: what is lost because classes come task after task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ofcl.evaluation.metrics import mean
from ofcl.report.grouping import experiment_key
from ofcl.report.spread import Spread, over_seeds
from ofcl.settings.schema import Settings


@dataclass(frozen=True)
class JointGap:
    """The distance of an experiment from joint training, over the seeds that both have.

    As text: A's points below joint training, and the share of joint training's A that is reached.

    Args:
        A: A of joint training less A of the experiment, in points.
        share: A of the experiment in percent of A of joint training; None if the latter is 0.
        seeds: The number of seeds that both have.

    >>> str(JointGap(Spread(4.0, 0.5), share=95.2, seeds=3))
    '4.00 ± 0.50 (95 %)'
    """

    A: Spread
    share: float | None
    seeds: int

    def __str__(self) -> str:
        return f"{self.A}" if self.share is None else f"{self.A} ({self.share:.0f} %)"


def joint_key(settings: Settings) -> str | None:
    """Returns the `experiment_key` of joint training with the same other settings.

    Args:
        settings: The settings of one of the experiment's runs.

    Returns:
        The key; None if the experiment is joint training itself.
    """
    if settings.joint:
        return None
    return experiment_key(settings.model_copy(update={"joint": True}))


def gap_to_joint(
    experiment: Mapping[int, Sequence[float]], joint: Mapping[int, Sequence[float]]
) -> JointGap | None:
    """Computes how far an experiment stays below joint training, seed by seed.

    Args:
        experiment: For each seed, A of each client of the experiment.
        joint: For each seed, A of each client of joint training.

    Returns:
        The gap; None if the two have no seed in common.

    >>> str(gap_to_joint({0: [60.0, 80.0], 1: [50.0]}, {0: [75.0, 85.0]}))
    '10.00 (88 %)'
    """
    pairs = [
        (own, bound)
        for seed in sorted(experiment.keys() & joint.keys())
        if (own := mean(experiment[seed])) is not None and (bound := mean(joint[seed])) is not None
    ]
    if not pairs:
        return None
    own_sum, joint_sum = (sum(values) for values in zip(*pairs, strict=True))
    return JointGap(
        A=over_seeds([bound - own for own, bound in pairs]),
        share=100 * own_sum / joint_sum if joint_sum else None,
        seeds=len(pairs),
    )
