"""EWC (Kirkpatrick et al. 2017), online: weights that mattered to past tasks stay where they were.

The importance F of a weight is its mean squared gradient over the mini-batches of the current task.
It travels with the model, so it is averaged over the clients in every round. When a task has ended,

    Ω ← Ω + F,   w* ← the last global model,   F ← 0

with F as it was after the last round. The loss of every gradient step has the penalty

    λ/2 · Σ Ω (w − w*)²

whose gradient λ Ω (w − w*) is added to that of the run's loss. It is never steeper than 1 / lr: a
step of plain SGD cannot jump beyond w*.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ofcl.methods.parts import LearnerParts, Moment
from ofcl.methods.replay import Replay
from ofcl.models.head import with_zeros
from ofcl.state import State, Tensors


class Importance(nn.Module):
    """The importance of each weight of a model, as buffers: a companion of the model.

    Args:
        model: The model.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.register_buffer(name.replace(".", "_"), torch.zeros_like(parameter))


class ElasticWeights:
    """The penalty of EWC, and the measuring of importance (a `Follower`).

    Args:
        model: The client's model, with its `Importance` as companion.
        weight: The weight λ of the penalty.
        steepest: The largest λ Ω: one over the learning rate.
        moment: `task`: importance is added up, and the anchor moves, when a task has ended;
            `round`: after every round, Ω is the importance so far, and the anchor moves.
    """

    def __init__(self, model: nn.Module, weight: float, steepest: float, moment: Moment) -> None:
        self._model, self._weight, self._steepest, self._moment = model, weight, steepest, moment
        weights = [p.detach() for p in self._weights()]
        self._omega, self._latest_f = ([torch.zeros_like(w) for w in weights] for _ in range(2))
        self._anchor, self._latest = ([w.clone() for w in weights] for _ in range(2))
        # How much the newest mini-batch counts in the mean; a tensor, for captured steps.
        self._share = torch.ones((), device=weights[0].device)
        self._batches, self._ended, self._met = 0, False, False

    def _weights(self) -> list[nn.Parameter]:
        """Lists the parameters of the network that learn, in their order."""
        return [p for p in self._model.parameters() if p.requires_grad]

    def _importance(self) -> list[Tensor]:
        """Lists the importance F of each of them."""
        return list(self._model.get_submodule("companion").buffers())

    def adjust(self, gradients: list[Tensor], is_first: bool) -> list[Tensor]:
        """Measures importance in the first step; adds the gradient of the penalty.

        Args:
            gradients: The gradients of the run's loss, in the order of the parameters.
            is_first: Whether it is the first step of the mini-batch.
        """
        if is_first:
            for mean, gradient in zip(self._importance(), gradients, strict=True):
                mean.lerp_(gradient.square(), self._share)
        parts = zip(gradients, self._omega, self._weights(), self._anchor, strict=True)
        return [
            gradient + (self._weight * omega).clamp(0, self._steepest) * (w - anchor)
            for gradient, omega, w, anchor in parts
        ]

    def before_steps(self, samples: int, current: Tensor) -> None:
        """Consolidates if a task has ended, and counts the mini-batch.

        Args:
            samples: Not used; every follower takes it.
            current: Not used; every follower takes it.
        """
        if self._ended:
            self._consolidate()
        self._batches += 1
        self._share.fill_(1 / self._batches)

    def after_steps(self, samples: int) -> None:
        """Does nothing: importance is measured in the gradient steps."""

    @torch.no_grad()
    def _consolidate(self) -> None:
        """Adds the last task's importance to that of all before, and moves the anchor."""
        if not self._met:  # no round yet: the client's own
            self._note()
        for omega, f in zip(self._omega, self._latest_f, strict=True):
            omega.add_(f)
        for anchor, latest in zip(self._anchor, self._latest, strict=True):
            anchor.copy_(latest)
        for mean in (*self._importance(), *self._latest_f):
            mean.zero_()
        self._batches, self._ended = 0, False

    @torch.no_grad()
    def _note(self) -> None:
        """Copies the weights and their importance as they are now."""
        for latest, w in zip(self._latest, self._weights(), strict=True):
            latest.copy_(w)
        for latest, f in zip(self._latest_f, self._importance(), strict=True):
            latest.copy_(f)

    @torch.no_grad()
    def after_round(self, global_model: Tensors) -> None:
        """Copies the model, which has just taken the global one, and the averaged importance.

        Args:
            global_model: Not used: the client's model may be a mixture of its own and this one.
        """
        self._note()
        self._met = True
        if self._moment == "round":
            for into, source in ((self._omega, self._latest_f), (self._anchor, self._latest)):
                for old, new in zip(into, source, strict=True):
                    old.copy_(new)

    def end_task(self) -> None:
        """Notes that the task has ended: before the next mini-batch, importance is added up."""
        self._ended = self._moment == "task"

    def grow(self, classes: int, seed: int) -> None:
        """Adds the new outputs' weights, without importance.

        Args:
            classes: How many outputs there are now.
            seed: Not used; every follower takes it.
        """
        for i, w in enumerate(self._weights()):
            if (rows := len(self._omega[i])) == len(w):
                continue
            for zeros in (self._omega, self._latest_f):
                zeros[i] = with_zeros(zeros[i], len(w))
            for values in (self._anchor, self._latest):
                values[i] = torch.cat([values[i], w.detach()[rows:]])

    def state(self) -> State:
        """Returns importance, anchor and counts, for a checkpoint; F is in the model."""
        return {
            "omega": self._omega,
            "latest_f": self._latest_f,
            "anchor": self._anchor,
            "latest": self._latest,
            "batches": self._batches,
            "ended": self._ended,
            "met": self._met,
        }

    def load_state(self, state: State) -> None:
        """Restores them from what `state` returned."""
        kept = {"omega": self._omega, "latest_f": self._latest_f}
        kept |= {"anchor": self._anchor, "latest": self._latest}
        for name, own in kept.items():
            for into, saved in zip(own, state[name], strict=True):
                into.copy_(saved)
        self._batches = int(state["batches"])
        self._ended, self._met = bool(state["ended"]), bool(state["met"])


def learner(parts: LearnerParts) -> Replay:
    """Makes EWC's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    steepest = 1 / float(parts.make_optimizer().param_groups[0]["lr"])
    elastic = ElasticWeights(parts.model, parts.ewc_weight, steepest, parts.moment)
    return parts.replay(adjust=elastic.adjust, followers=(elastic,))
