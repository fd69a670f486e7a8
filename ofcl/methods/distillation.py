"""Distillation: a term that keeps a client's predictions near those of the last global model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute.foreach import copy_all
from ofcl.models.head import grow_head
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State


class Distillation:
    """A loss term that keeps predictions of replayed samples near those of a teacher.

    The teacher is a copy of the model as it was after the client's last round. The term is the
    divergence of the two softened predictions (Hinton et al. 2015). It has no weight until the
    client's first round, as no global model has come before.

    Args:
        model: The model that learns.
        weight: The weight of the term from the first round on.
        temperature: Divides the logits of model and teacher; the larger it is, the more unlikely
            classes count.
    """

    def __init__(self, model: nn.Module, weight: float, temperature: float = 2.0) -> None:
        self._model, self._full_weight, self._temperature = model, weight, temperature
        self.teacher = copy_model(model).eval().requires_grad_(False)
        # A tensor, so that captured steps see it change.
        self.weight = torch.zeros((), device=next(model.parameters()).device)

    @torch.no_grad()
    def targets(self, x: Tensor) -> Tensor:
        """Computes the teacher's logits of replayed samples.

        Args:
            x: The samples (steps, n, …).

        Returns:
            The logits (steps, n, classes).
        """
        logits: Tensor = self.teacher(x.flatten(0, 1))
        return logits.view(*x.shape[:2], -1)

    def divergence(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Computes the mean divergence of the model's predictions from the teacher's, unweighted.

        Args:
            logits: The model's logits (…, n, classes).
            targets: The teacher's logits (…, n, classes).

        Returns:
            The mean over the n samples, with the leading dimensions (…) alone.
        """
        temperature = self._temperature
        learned = F.log_softmax(logits / temperature, -1)
        taught = F.log_softmax(targets / temperature, -1)
        each = (taught.exp() * (taught - learned)).sum(-1)
        return temperature**2 * each.mean(-1)

    @torch.no_grad()
    def after_round(self) -> None:
        """Copies the model, which has just taken the global one, into the teacher."""
        own, learned = saved_state(self.teacher), self._model.state_dict()
        copy_all(list(own.values()), [learned[name] for name in own])
        self.weight.fill_(self._full_weight)

    def grow(self, classes: int, seed: int) -> None:
        """Gives the teacher outputs for new classes, with the weights that the model's get too.

        Args:
            classes: How many outputs the head has afterwards.
            seed: The run's seed, from which the weights of new outputs are drawn.
        """
        grow_head(self.teacher, classes, seed)
        self.teacher.requires_grad_(False)

    def state(self) -> State:
        """Returns the teacher and the current weight of the term, for a checkpoint."""
        return {"teacher": saved_state(self.teacher), "weight": self.weight}

    def load_state(self, state: State) -> None:
        """Restores the teacher and the weight from what `state` returned."""
        load_saved(self.teacher, state["teacher"])
        self.weight.copy_(state["weight"])
