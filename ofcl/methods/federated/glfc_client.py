"""GLFC (Dong et al. 2022) at a client, online: an objective of replay that follows the run.

When new classes come, all classes so far become old ones, and the client's last global model
becomes the old model, whose relations are distilled. Where the stream says when tasks begin, new
classes come with them. Where it does not, they have come if the mean entropy of the global model's
predictions for the first mini-batch after a round is more than `rise` above that of the round
before, as in the paper.

The paper's clients also send gradients of one image of each class to a proxy server, which
reconstructs the images and chooses the best old model by them. That part is left out: an image that
can be reconstructed has left its client.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ofcl.methods.additions import Step
from ofcl.methods.federated.glfc_losses import compensation_loss, mean_entropy, relation_loss
from ofcl.methods.learner import Learner
from ofcl.methods.parts import LearnerParts
from ofcl.models.head import grow_head, outputs, with_zeros
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State, Tensors

RISE = 1.2  # of the entropy, as in the paper


class GLFC:
    """GLFC's objective, which is also a follower of the run (`methods.additions`).

    Args:
        model: The client's model, which learns.
        rise: How much the entropy has to rise if new classes are to be noticed by it.
    """

    def __init__(self, model: nn.Module, rise: float = RISE) -> None:
        device = next(model.parameters()).device
        self._model, self._rise = model, rise
        self._last = copy_model(model).eval().requires_grad_(False)  # the last global model
        self._old_model = copy_model(model).eval().requires_grad_(False)
        # Tensors that stay where they are, so that captured steps see them change.
        self._old, self._seen = (
            torch.zeros(outputs(model), dtype=torch.bool, device=device) for _ in range(2)
        )
        self._entropy = torch.zeros((), device=device)  # of the last mini-batch's predictions
        self._current = torch.zeros(outputs(model), dtype=torch.bool)  # classes of the task, so far
        self._last_entropy: float | None = None  # of the first mini-batch after the last round
        self._after_round = False  # whether a round has passed since the last mini-batch
        self._tasks = False  # whether the stream has said that a task begins

    def __call__(self, step: Step) -> Tensor:
        """Computes the loss of a gradient step: half compensation, half relations.

        Args:
            step: The gradient step, with one view of each sample.
        """
        logits = step.logits[0]
        if step.is_first:
            self._entropy.copy_(mean_entropy(logits[: step.new].detach()))
        compensated = compensation_loss(logits, step.y, self._old, self._seen)
        with torch.no_grad():
            old_logits = self._old_model(step.x[: len(step.y)]).float()
        relations = relation_loss(logits, step.y, old_logits, self._old, self._seen)
        half = 0.5 * compensated + 0.5 * relations
        return torch.where(self._old.any(), half, compensated)

    def before_steps(self, samples: int, current: Tensor) -> None:
        """Notes the classes; if a task has begun, those of the tasks before become old.

        Args:
            samples: Not used.
            current: Whether each class is one of the current task so far (classes,), on the CPU.
        """
        if bool((self._current & ~current).any()):  # within a task, classes only come
            self._tasks = True
            self._turn()
        self._current = current.clone()
        self._seen |= current.to(self._seen.device)

    def after_steps(self, samples: int) -> None:
        """Notices new classes by the entropy, if the stream does not say when tasks begin.

        Args:
            samples: Not used.
        """
        if not self._after_round or self._tasks:
            return
        entropy, before = float(self._entropy), self._last_entropy
        self._after_round, self._last_entropy = False, entropy
        if before is not None and entropy - before > self._rise:
            self._turn()

    def _turn(self) -> None:
        """Makes all classes so far old ones, and the last global model the old model."""
        self._old.copy_(self._seen)
        load_saved(self._old_model, saved_state(self._last))

    def grow(self, classes: int, seed: int) -> None:
        """Adds outputs for new classes to the copies of the model.

        Args:
            classes: How many outputs there are now.
            seed: The run's seed, from which the weights of new outputs are drawn.
        """
        for model in (self._last, self._old_model):
            grow_head(model, classes, seed)
            model.requires_grad_(False)
        self._old, self._seen, self._current = (
            with_zeros(mask, classes) for mask in (self._old, self._seen, self._current)
        )

    def after_round(self, global_model: Tensors) -> None:
        """Copies the model, which has just taken the global one.

        Args:
            global_model: Not used: with `mixing`, the client goes on from a mixture.
        """
        load_saved(self._last, saved_state(self._model))
        self._after_round = True

    def end_task(self) -> None:
        """Does nothing: the next task's first mini-batch is the sign."""

    def state(self) -> State:
        """Returns the copies of the model, the classes and the entropy, for a checkpoint."""
        return {
            "last": saved_state(self._last),
            "old_model": saved_state(self._old_model),
            "old": self._old,
            "seen": self._seen,
            "current": self._current,
            "last_entropy": self._last_entropy,
            "after_round": self._after_round,
            "tasks": self._tasks,
        }

    def load_state(self, state: State) -> None:
        """Restores what `state` returned.

        Args:
            state: The state.
        """
        load_saved(self._last, state["last"])
        load_saved(self._old_model, state["old_model"])
        self._old.copy_(state["old"])
        self._seen.copy_(state["seen"])
        self._current = state["current"].clone()
        self._last_entropy = state["last_entropy"]
        self._after_round, self._tasks = bool(state["after_round"]), bool(state["tasks"])


def learner(parts: LearnerParts) -> Learner:
    """Builds GLFC's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    follower = GLFC(parts.model, parts.glfc_rise)
    return parts.replay(objective=follower, followers=(follower,))
