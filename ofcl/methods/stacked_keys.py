"""Keys of the samples of several clients at once, for small models on a CPU.

The score of a handful of vectors is mostly the calls that it is made of, as a gradient step is
(`stacked.py`). So the copies of all clients' samples go through all scoring models in one call.
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
    """A memory that waits for the keys of some samples, which are scores."""

    memory: Memory
    key: KeyByScore
    samples: Unkeyed


def set_keys_together(
    memories: Sequence[Memory], unkeyed: Sequence[list[Unkeyed]], weights: StackedWeights
) -> None:
    """Computes the keys that memories wait for, in one call if all want scores of the same shape.

    Args:
        memories: Memories that were offered a mini-batch each.
        unkeyed: For each of them, the samples that `Memory.offer` returned.
        weights: The stack of the scoring models.
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
    """Gives the one group of samples that a memory asks scores for; none if it asks otherwise."""
    key = memory.policy.key
    if len(groups) != 1 or not isinstance(key, KeyByScore):
        return []
    scorer = key.scorer
    stackable = scorer.frozen and isinstance(scorer.model, MLP)
    return [Asking(memory, key, groups[0])] if stackable else []


@torch.no_grad()
def _scores(asking: Sequence[Asking], weights: StackedWeights) -> list[Tensor]:
    """Computes the scores (n,) that each memory asks for, of samples of the same shape."""
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
