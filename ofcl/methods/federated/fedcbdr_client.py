"""FedCBDR (Qi et al. 2025) at a client, online: an objective of replay that follows the rounds.

The client's part of the global view travels with its model, in a companion (`Method.companion`):
the matrix of its memory's features (`fedcbdr_view`) and the share of each class in the samples that
it has learned. After a round the companion has the mean of all parts. The client takes it, and puts
its next part there, computed by the global model that has just come: so all clients' parts are of
the same model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ofcl.errors import OfclError
from ofcl.methods.additions import Step
from ofcl.methods.federated.fedcbdr_loss import TaskAwareTemperature
from ofcl.methods.federated.fedcbdr_view import GlobalView, feature_count
from ofcl.methods.learner import Learner
from ofcl.methods.parts import LearnerParts
from ofcl.models.head import outputs, with_zeros
from ofcl.state import COMPANION, State, Tensors


class Parts(nn.Module):
    """A client's part of the global view, which travels with its model; at first all zeros.

    Args:
        model: The model that it is added to.
    """

    gram: Tensor
    head_bias: Tensor
    """The share of each class; the name says that it grows with the head's bias."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        width = feature_count(model)
        self.register_buffer("gram", torch.zeros(width, width))
        self.register_buffer("head_bias", torch.zeros(outputs(model)))


class FedCBDR:
    """FedCBDR's objective, which is also a follower of the run (`methods.additions`).

    Args:
        view: The view that chooses the samples of the memory.
        parts: The parts of the learner: the model with its companion, the memory, and whether the
            client tells the shares of its classes (`class_counts`); if not, it tells zeros.
        loss: The loss with temperatures.
    """

    def __init__(self, view: GlobalView, parts: LearnerParts, loss: TaskAwareTemperature) -> None:
        assert parts.memory is not None
        self._model, self._view, self._memory, self._loss = parts.model, view, parts.memory, loss
        self._tell_classes = parts.class_counts
        device = next(parts.model.parameters()).device
        # Where captured steps count the samples of each class, so it stays where it is.
        self._counts = torch.zeros(outputs(parts.model), device=device)
        self._told = torch.zeros(outputs(parts.model), device=device)

    @property
    def _parts(self) -> Parts:
        """The companion of the model."""
        parts = self._model.get_submodule(COMPANION)
        assert isinstance(parts, Parts)
        return parts

    def __call__(self, step: Step) -> Tensor:
        """Computes the loss of a gradient step, and counts the new samples in the first one.

        Args:
            step: The gradient step.
        """
        if step.is_first:
            new = step.y[: step.new]
            self._counts.index_add_(0, new, torch.ones_like(new, dtype=self._counts.dtype))
        y = step.y.expand(len(step.logits), -1)
        return self._loss(step.logits, y, step.new, step.current).mean()

    def before_steps(self, samples: int, current: Tensor) -> None:
        """Does nothing: the first step counts the samples."""

    def after_steps(self, samples: int) -> None:
        """Does nothing: the view changes with rounds alone."""

    @torch.no_grad()
    def after_round(self, global_model: Tensors) -> None:
        """Takes the view of all clients' parts, and adds the next part to the model.

        Args:
            global_model: Not used: its companion is in the client's model.
        """
        parts = self._parts
        self._view.take(parts.gram, self._told, parts.head_bias)
        parts.gram.copy_(self._view.part(self._memory))
        shares = self._counts / self._counts.sum().clamp_min(1)
        self._told = shares if self._tell_classes else torch.zeros_like(shares)
        parts.head_bias.copy_(self._told)

    def grow(self, classes: int, seed: int) -> None:
        """Makes room for the counts of new classes.

        Args:
            classes: How many outputs there are now.
            seed: Not used.
        """
        self._counts, self._told = (with_zeros(v, classes) for v in (self._counts, self._told))

    def end_task(self) -> None:
        """Does nothing: the view changes with rounds alone."""

    def state(self) -> State:
        """Returns the counts of classes, for a checkpoint; the memory keeps the view."""
        return {"counts": self._counts, "told": self._told}

    def load_state(self, state: State) -> None:
        """Restores what `state` returned.

        Args:
            state: The state.
        """
        self._counts.copy_(state["counts"])
        self._told = state["told"].to(self._counts)


def learner(parts: LearnerParts) -> Learner:
    """Builds FedCBDR's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    view = parts.memory.policy.scorer if parts.memory is not None else None
    if not isinstance(view, GlobalView):
        raise OfclError("fedcbdr chooses samples by its global view; without it use cbr, with your "
                        "policy or score")  # fmt: skip
    loss = TaskAwareTemperature(parts.tau_old, parts.tau_new, parts.omega_old, parts.omega_new)
    follower = FedCBDR(view, parts, loss)
    return parts.replay(objective=follower, followers=(follower,))
