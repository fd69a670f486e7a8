"""MIR (Aljundi et al. 2019): replays the samples that the next step would hurt most.

Before each gradient step, some samples are drawn from the memory. A virtual step on the new samples
alone, w' = w − lr · ∇CE(new), shows by how much it would raise the loss of each:

    CE(x; w') − CE(x; w)

Those with the largest values are replayed. The model itself does not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute.batching import batchable
from ofcl.methods.parts import LearnerParts
from ofcl.methods.replay import Replay


@dataclass(frozen=True)
class Interference:
    """Chooses the candidates for replay whose loss a virtual step would raise most (a `Choose`).

    Args:
        model: The client's model.
        lr: The learning rate of the virtual step, which is one of plain SGD.
    """

    model: nn.Module
    lr: float

    def __call__(self, x: Tensor, y: Tensor, new: int, wanted: int) -> Tensor:
        """Chooses the samples that are replayed.

        Args:
            x: The inputs (n, …): new samples, then the candidates.
            y: Their classes (n,).
            new: How many samples are new.
            wanted: How many candidates are chosen.

        Returns:
            The indices of the chosen among the candidates (wanted,), the most hurt first.
        """
        return self.raised(x, y, new).topk(wanted).indices

    def raised(self, x: Tensor, y: Tensor, new: int) -> Tensor:
        """Computes by how much a virtual step raises the loss of each candidate (n − new,).

        Args:
            x: The inputs (n, …): new samples, then the candidates.
            y: Their classes (n,).
            new: How many samples are new.
        """
        now = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        loss = self._losses(now, x[:new], y[:new]).mean()
        gradients = torch.autograd.grad(loss, list(now.values()), materialize_grads=True)
        with torch.no_grad():
            pairs = zip(now.items(), gradients, strict=True)
            then = {name: p - self.lr * gradient for (name, p), gradient in pairs}
            before, after = (self._losses(each, x[new:], y[new:]) for each in (now, then))
        return after - before

    def _losses(self, parameters: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        """Computes each sample's cross-entropy (n,) with other parameters than the model's.

        BatchNorm uses the statistics of these samples, and its running ones do not change.
        """
        copies = {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        logits = torch.func.functional_call(self.model, {**parameters, **copies}, (batchable(x),))
        return F.cross_entropy(logits[: len(y)], y, reduction="none")


def learner(parts: LearnerParts) -> Replay:
    """Makes MIR's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    lr = float(parts.make_optimizer().param_groups[0]["lr"])
    choose = Interference(parts.model, lr)
    return parts.replay(choose=choose, candidates=parts.mir_candidates)
