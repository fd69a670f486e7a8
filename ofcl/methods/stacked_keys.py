"""Keys of the samples of several clients at once, for small models on a CPU.

Scoring a handful of vectors spends most of its time in the overhead of its calls, as a gradient
step does (`stacked.py`). So the copies of all clients' samples go through all scoring models in
one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ofcl.memory.memory import Memory
from ofcl.memory.policy import KeyByScore, Unkeyed
from ofcl.models.head import outputs
from ofcl.models.mlp import MLP
from ofcl.models.stacked_weights import StackedWeights


class Asking(NamedTuple):
    """A memory that waits for scores, the key that is made of them, and the samples to score."""

    memory: Memory
    key: KeyByScore
    samples: Unkeyed


def set_keys_together(
    memories: Sequence[Memory], unkeyed: Sequence[list[Unkeyed]], weights: StackedWeights
) -> None:
    """Computes the keys that memories wait for, and sets them in the memories.

    One call computes all keys if every memory waits for scores of one group of samples and all
    groups have the same shape; otherwise the keys of each memory are computed alone.

    Args:
        memories: Memories that were offered a mini-batch each.
        unkeyed: For each memory, the groups of samples that `Memory.offer` returned.
        weights: The stack into which the scoring models' weights are gathered.
    """
    asking = [ask for pair in zip(memories, unkeyed, strict=True) for ask in _asking(*pair)]
    shapes = {(ask.samples.x.shape, outputs(ask.key.scorer.model)) for ask in asking}
    if len(asking) < len(memories) or len(shapes) != 1:
        for memory, groups in zip(memories, unkeyed, strict=True):
            memory.set_keys([memory.policy.keys(*group) for group in groups])
        return
    for ask, scores in zip(asking, _scores(asking, weights), strict=True):
        ask.memory.set_keys([ask.key.of(scores)])


def _asking(memory: Memory, groups: list[Unkeyed]) -> list[Asking]:
    """Returns the memory with its samples as a list of one, if their scores can be stacked.

    The list is empty if there is not exactly one group of samples, if keys are no scores, or if the
    scoring model is not a frozen MLP.

    Args:
        memory: The memory.
        groups: The groups of samples that wait for a key.
    """
    key = memory.policy.key
    if len(groups) != 1 or not isinstance(key, KeyByScore):
        return []
    scorer = key.scorer
    stackable = scorer.frozen and isinstance(scorer.model, MLP)
    return [Asking(memory, key, groups[0])] if stackable else []


@torch.no_grad()
def _scores(asking: Sequence[Asking], weights: StackedWeights) -> list[Tensor]:
    """Computes the scores that memories wait for, with one forward of all scoring models.

    Args:
        asking: The memories with their samples, which have the same shape in all of them.
        weights: The stack into which the scoring models' weights are gathered.

    Returns:
        For each memory, the scores (n,) of its samples.
    """
    models = [ask.key.scorer.model for ask in asking]
    views = torch.stack([ask.key.scorer.views_of(ask.samples.x) for ask in asking])
    clients, copies, n = views.shape[:3]
    logits = MLP.stacked(weights.gather(models), views.flatten(1, 2))
    scores = []
    # BI is the small difference of large numbers: computed for all at once, where vectors end
    # elsewhere, it rounds so differently that other samples would stay.
    for ask, of_copies in zip(asking, logits.view(clients, copies, n, -1), strict=True):
        y = [ask.samples.y] if ask.memory.policy.labelled else []
        scores.append(ask.key.scorer.score(of_copies, *y))
    return scores
