"""Re-Fed (Li et al. 2024): the importance of samples, by a personalised informative model.

The model v starts as the last global model w and takes steps p = 1, 2, … on the client's samples:

    v ← v − η (mean of ∇CE(f_v(x), y) + (1 − λ) / 2λ · (v − w))

A λ near 1 makes v the client's own, a λ near 0 keeps it at the global model. The importance of a
sample is the sum of the norms of its gradient along the way, of which early ones count most:

    I(x) = Σ_p 1/p · ‖∇CE(f_v(x), y)‖    with v as it was before step p

The models along the way are kept until the next round, so that samples that come in between are
measured by the same ones.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ofcl.compute import foreach
from ofcl.compute.devices import to_device
from ofcl.errors import OfclError
from ofcl.memory.policy import Policy
from ofcl.methods.federated.replayed_norms import ReplayedNorms
from ofcl.methods.parts import PolicyParts
from ofcl.models.head import BIAS, WEIGHT, grow_head, grown
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State, Tensors, copied


class Importance:
    """Computes the importance of a client's samples; the key of Re-Fed's memory.

    Args:
        model: The client's model, which learns.
        lr: The learning rate η of the personalised model.
        steps: The number of models along whose way importance is added up.
        share: λ, the share of the client's own data in the personalised model, above 0 and below 1.
        capture: Whether a GPU may replay what the model computes from a graph.
    """

    frozen = True  # the gradient steps of the client's model do not change importances

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        steps: int = 5,
        share: float = 0.5,
        *,
        capture: bool = True,
    ) -> None:
        self._learning, self._model = model, copy_model(model).eval()
        self._gradients = ReplayedNorms(self._model, capture=capture)
        self._lr, self._steps, self._pull = lr, steps, (1 - share) / (2 * share)
        self._way: list[Tensors] = []  # the personalised model before each step; []: not made yet

    @property
    def model(self) -> nn.Module:
        """The last global model, from which the personalised one starts."""
        return self._model

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the keys (n,) of samples: the most important have the smallest.

        The first call after a round trains the personalised model on its samples.

        Args:
            x: The samples (n, …).
            y: Their classes (n,), on the CPU.
        """
        return -self.importance(x, to_device(y, x.device))

    @torch.no_grad()
    def importance(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the importance (n,) of samples (at the top of this file).

        Args:
            x: The samples (n, …).
            y: Their classes (n,), on the same device.
        """
        total = torch.zeros(len(x), device=x.device)
        if not len(x):
            return total
        way = self._way or [self._weights()]
        for step in range(self._steps):
            norms, mean = self._gradients(way[step], x, y)
            total += norms / (step + 1)
            if len(way) == step + 1 < self._steps:
                way.append(self._stepped(way[step], mean, way[0]))
        self._way = way
        return total

    def _weights(self) -> Tensors:
        """Copies the parameters of the last global model that learn."""
        learning: Tensors = {
            name: p for name, p in self._model.named_parameters() if p.requires_grad
        }
        return copied(learning)

    def _stepped(self, weights: Tensors, gradient: Tensors, start: Tensors) -> Tensors:
        """Takes one step of the personalised model, and returns it.

        Args:
            weights: The personalised model v.
            gradient: The mean gradient of its loss.
            start: The global model w.
        """
        own = list(weights.values())
        steps = foreach.differences(own, [start[name] for name in weights])
        foreach.scale_all(steps, self._pull)
        foreach.add_scaled(steps, [gradient[name] for name in weights], 1.0)
        foreach.scale_all(steps, self._lr)
        return dict(zip(weights, foreach.differences(own, steps), strict=True))

    def distances_between(self, x: Tensor) -> Tensor:
        """Raises an error: Re-Fed compares importances, not samples with each other."""
        raise OfclError("Re-Fed's memory keeps samples by importance, not by distance")

    def grow(self, classes: int, seed: int) -> None:
        """Adds outputs for new classes to the models along the way.

        Args:
            classes: The number of classes now.
            seed: The run's seed, from which new outputs start.
        """
        grow_head(self._model, classes, seed)
        self._gradients.grow()
        self._way = [{**v, **grown(_head(v), classes, seed)} for v in self._way]

    def round_passed(self, when: Literal["before-round", "after-round"]) -> None:
        """Takes the global model that the client has just taken, as the start of the next way.

        Args:
            when: `after-round`: the client has just taken the global model; before, nothing is to
                do.
        """
        if when == "after-round":
            load_saved(self._model, saved_state(self._learning))
            self._way = []

    def state(self) -> State:
        """Returns the last global model and the models along the way, for a checkpoint."""
        return {"model": saved_state(self._model), "way": [dict(v) for v in self._way]}

    def load_state(self, state: State) -> None:
        """Restores what `state` returned.

        Args:
            state: The state.
        """
        device = next(self._model.parameters()).device
        load_saved(self._model, state["model"])
        self._way = [{name: t.to(device) for name, t in v.items()} for v in state["way"]]


def _head(weights: Tensors) -> Tensors:
    """Picks the tensors of the head."""
    return {name: weights[name] for name in (WEIGHT, BIAS)}


def by_importance(parts: PolicyParts) -> Policy:
    """Makes the policy of Re-Fed: of each class, the most important samples stay.

    Args:
        parts: The parts that policies are made from; Re-Fed uses the model, its learning rate and
            the settings of the personalised model.
    """
    assert parts.model is not None
    steps, share = parts.refed_steps, parts.refed_lambda
    key = Importance(parts.model, parts.lr, steps, share, capture=parts.capture)
    return Policy(key, rekey="every-round", scorer=key, labelled=True)
