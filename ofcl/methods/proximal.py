"""FedProx: a term that keeps a client's model near the last global model (Li et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ofcl.compute.foreach import copy_all
from ofcl.methods.losses import proximal_term
from ofcl.state import Tensors


class ProximalTerm:
    """FedProx's loss term: how far a model is from the last global model, its anchor.

    Args:
        model: The model that learns; the anchor is a copy of it until the first round.
        mu: The weight μ of the term.
        kind: `squared`: μ/2 · ‖w − w_global‖²; `norms`: μ/2 times the sum of the norms of each
            tensor's difference, as in the paper's released code.
    """

    def __init__(self, model: nn.Module, mu: float, kind: Literal["squared", "norms"]) -> None:
        self._model, self._mu, self._kind = model, mu, kind
        self._anchor = [p.detach().clone() for p in self._learning().values()]

    def _learning(self) -> dict[str, nn.Parameter]:
        """Returns the parameters that learn, by name; the head's may have been replaced."""
        named = self._model.named_parameters()
        return {name: parameter for name, parameter in named if parameter.requires_grad}

    def __call__(self) -> Tensor:
        """Computes the term, weighted by μ, for the model's current weights."""
        parameters = list(self._learning().values())
        return proximal_term(parameters, self._anchor, self._mu, self._kind)

    @torch.no_grad()
    def after_round(self, global_model: Tensors) -> None:
        """Makes a new global model the anchor.

        Args:
            global_model: The global model's tensors by name.
        """
        copy_all(self._anchor, [global_model[name] for name in self._learning()])

    def grow(self) -> None:
        """Adds the outputs by which the model's head has grown to the anchor, as they are now."""
        for i, parameter in enumerate(self._learning().values()):
            anchor = self._anchor[i]
            if anchor.shape != parameter.shape:
                self._anchor[i] = torch.cat([anchor, parameter.detach()[len(anchor) :]])

    def state(self) -> list[Tensor]:
        """Returns the anchor's tensors, for a checkpoint."""
        return self._anchor

    def load_state(self, anchor: Sequence[Tensor]) -> None:
        """Restores the anchor.

        Args:
            anchor: The tensors that `state` returned.
        """
        for own, saved in zip(self._anchor, anchor, strict=True):
            own.copy_(saved)
