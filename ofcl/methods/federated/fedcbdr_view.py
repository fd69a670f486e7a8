"""FedCBDR (Qi et al. 2025): the global view, by which a client chooses what it remembers.

In the paper every client sends its features X_k, rotated by P_k and Q, and the server computes the
singular vectors U of all of them, X = U Σ Vᵀ. The leverage score of a sample is the squared length
of its row of U. The same number is

    τ(x) = xᵀ G⁺ x    with G = Σ_k X_kᵀ X_k

so that the sum G of the clients' d × d matrices is all that anybody has to know; a mean does as
well. Every client adds its matrix to its model (`fedcbdr_client`), and the server averages them as
it averages models. A sample of a class stays with a probability in proportion to τ. The room of a
class at a client is in proportion to the share of the class in the client's samples, divided by the
mean of this share: so all classes have the same room in all memories together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute.batching import forward_size
from ofcl.errors import OfclError
from ofcl.memory.choice import weighted
from ofcl.memory.memory import Memory
from ofcl.memory.policy import Policy
from ofcl.methods.parts import PolicyParts
from ofcl.models.head import grow_head
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State

LEAST = 1e-4  # eigenvalues of G below this share of the largest count as zero
NEARLY = 1e-4  # weights are quotients of rounded shares


def leverage(features: Tensor, gram: Tensor) -> Tensor:
    """Computes the leverage scores τ(x) = xᵀ G⁺ x of samples.

    >>> leverage(torch.eye(2), torch.diag(torch.tensor([4.0, 1.0])))
    tensor([0.2500, 1.0000])

    Args:
        features: The features x (n, d).
        gram: The matrix G (d, d), symmetric.
    """
    inverse: Tensor = torch.linalg.pinv(gram.double(), rtol=LEAST, hermitian=True)
    wide = features.double()
    return ((wide @ inverse) * wide).sum(1).clamp_min(0).to(features.dtype)


def shares_by_weight(
    counts: Mapping[int, int], size: int, weights: Mapping[int, float]
) -> dict[int, int]:
    """Splits the room of a memory in proportion to weights; what a class cannot use, others get.

    Every class has at least one place, if there are as many places as classes.

    >>> shares_by_weight({0: 9, 1: 9, 2: 2}, 10, {0: 1.0, 1: 3.0, 2: 1.0})
    {0: 2, 1: 6, 2: 2}

    Args:
        counts: The number of samples of each class.
        size: The number of samples that fit in the memory.
        weights: The weight of each class, above 0.

    Returns:
        The room of each class, in samples.
    """
    shares, left, total = {}, size, sum(weights[c] for c in counts)
    order = sorted(counts, key=lambda c: (counts[c] / weights[c], counts[c], -c))
    for place, c in enumerate(order):
        after = len(order) - place - 1  # classes that still need a place
        part = left if not after else int(left * weights[c] / total + NEARLY)
        shares[c] = min(counts[c], max(min(part, left - after), min(left, 1)))
        left, total = left - shares[c], total - weights[c]
    return dict(sorted(shares.items()))


class GlobalView:
    """A client's side of the global view: key and room of the samples of its memory.

    Until there is a view, after the second round, all samples have the same key, and all classes
    the same room.

    Args:
        model: The client's model, which learns.
    """

    frozen = True  # the gradient steps of the client's model do not change the scores

    def __init__(self, model: nn.Module) -> None:
        self._learning = model
        self.model = copy_model(model).eval()  # the last global model
        self._scoring = copy_model(model).eval()  # the global model that the view is of
        self._gram = torch.empty(0)  # of all clients; empty: there is no view yet
        self._weights: dict[int, float] = {}  # of classes; those that are missing have 1

    def __call__(self, x: Tensor) -> Tensor:
        """Computes the leverage scores (n,) of samples; 1 without a view.

        Args:
            x: The samples (n, …).
        """
        if not len(self._gram):
            return torch.ones(len(x), device=x.device)
        return leverage(unit_features(self._scoring, x), self._gram)

    def shares(self, counts: Mapping[int, int], size: int) -> dict[int, int]:
        """Splits the room of the memory by the client's share of all clients' samples of a class.

        Args:
            counts: The number of samples of each class.
            size: The number of samples that fit in the memory.
        """
        return shares_by_weight(counts, size, {c: self._weights.get(c, 1.0) for c in counts})

    def part(self, memory: Memory) -> Tensor:
        """Computes the client's part of the next view: X_kᵀ X_k / n of its n remembered samples.

        Args:
            memory: The client's memory. Its features are those of the last global model.
        """
        width = feature_count(self.model)
        if not len(memory):
            return torch.zeros(width, width, device=next(self.model.parameters()).device)
        features = unit_features(self.model, memory.x)
        return features.T @ features / len(features)

    def take(self, gram: Tensor, own: Tensor, mean: Tensor) -> None:
        """Takes the view of all clients' parts, and the global model that has just come.

        Args:
            gram: The mean G of the clients' matrices (d, d); zero: nobody had a part yet.
            own: The share of each class in the client's samples (classes,), as it has told it.
            mean: The mean of what all clients have told (classes,).
        """
        load_saved(self._scoring, saved_state(self.model))
        load_saved(self.model, saved_state(self._learning))
        told = bool(gram.diagonal().sum() > 0)
        self._gram = gram.clone() if told else torch.empty(0)
        pairs = enumerate(zip(own.tolist(), mean.tolist(), strict=True))
        self._weights = {c: mine / all_of for c, (mine, all_of) in pairs if mine > 0 < all_of}

    def distances_between(self, x: Tensor) -> Tensor:
        """Raises an error: FedCBDR draws samples by leverage, not by distance."""
        raise OfclError("FedCBDR's memory draws samples by leverage, not by distance")

    def grow(self, classes: int, seed: int) -> None:
        """Adds outputs for new classes to the copies of the model.

        Args:
            classes: The number of classes now.
            seed: The run's seed, from which new outputs start.
        """
        for model in (self.model, self._scoring):
            grow_head(model, classes, seed)

    def round_passed(self, when: Literal["before-round", "after-round"]) -> None:
        """Does nothing: `take` copies the global model, together with the view.

        Args:
            when: Not used.
        """

    def state(self) -> State:
        """Returns the view and the copies of the model, for a checkpoint."""
        return {
            "model": saved_state(self.model),
            "scoring": saved_state(self._scoring),
            "gram": self._gram,
            "weights": [[c, weight] for c, weight in self._weights.items()],
        }

    def load_state(self, state: State) -> None:
        """Restores what `state` returned.

        Args:
            state: The state.
        """
        load_saved(self.model, state["model"])
        load_saved(self._scoring, state["scoring"])
        self._gram = state["gram"].to(next(self.model.parameters()).device)
        self._weights = {int(c): float(weight) for c, weight in state["weights"]}


def feature_count(model: nn.Module) -> int:
    """Counts the features of a model: the inputs of its head."""
    head = model.get_submodule("head")
    assert isinstance(head, nn.Linear)
    return head.in_features


@torch.no_grad()
def unit_features(model: nn.Module, x: Tensor) -> Tensor:
    """Computes the features of samples, each scaled to length 1 (n, d).

    So the trace of a client's part is 1, whoever the client is.

    Args:
        model: A model with `features`, in evaluation mode.
        x: The samples (n, …).
    """
    parts = torch.split(x, forward_size(x.device))
    features = [model.features(part).flatten(1) for part in parts]  # type: ignore[operator]
    return F.normalize(torch.cat(features).float(), dim=1)


def by_leverage(parts: PolicyParts) -> Policy:
    """Makes the policy of FedCBDR: a draw by leverage in each class, room by the global view.

    Args:
        parts: The parts that policies are made from; FedCBDR uses the model and the seed of
            draws.
    """
    assert parts.model is not None
    view = GlobalView(parts.model)
    return Policy(
        view,
        rekey="every-round",
        scorer=view,
        choice=weighted(-1.0, parts.seed),
        shares=view.shares,
    )
