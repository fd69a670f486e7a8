"""The teacher of LwF and iCaRL: the last global model, and the classes that it knows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ofcl.compute.foreach import copy_all
from ofcl.methods.parts import Moment
from ofcl.models.head import grow_head, outputs
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State, Tensors


class Teacher:
    """A frozen copy of a client's model as it was after a round (a `Follower`).

    With `task`, it is the model after the last round of the client's last task, its closing round
    included; a client that has had no round takes its own model. With `round`, it is the model
    after the last round. Before that there is no teacher: it knows no class.

    Args:
        model: The client's model, which learns.
        moment: When the last global model becomes the teacher.
    """

    def __init__(self, model: nn.Module, moment: Moment) -> None:
        self._learning, self._moment = model, moment
        self._device = next(model.parameters()).device
        self._teaching, self._latest = (
            copy_model(model).eval().requires_grad_(False) for _ in range(2)
        )
        self.known = torch.zeros(outputs(model), dtype=torch.bool, device=self._device)
        self._seen = torch.zeros(outputs(model), dtype=torch.bool)
        self._ended = self._met = False  # whether a task has ended, whether there was a round

    def logits(self, x: Tensor) -> Tensor:
        """Computes the teacher's logits (n, classes).

        Args:
            x: The samples (n, …).
        """
        with torch.no_grad():
            logits: Tensor = self._teaching(x).float()
        return logits

    def before_steps(self, samples: int, current: Tensor) -> None:
        """Lets the last global model teach if a task has ended; notes the classes of this one.

        Args:
            samples: Not used; every follower takes it.
            current: Whether each class is one of the current task so far (classes,).
        """
        if self._ended:
            if not self._met:
                _copy(self._learning, self._latest)
            self._teach()
        self._seen |= current

    def after_steps(self, samples: int) -> None:
        """Does nothing: the teacher does not learn."""

    def _teach(self) -> None:
        """Makes the last global model the teacher; it knows all classes that the client has met."""
        _copy(self._latest, self._teaching)
        self.known.copy_(self._seen)
        self._ended = False

    def after_round(self, global_model: Tensors) -> None:
        """Copies the model, which has just taken the global one.

        Args:
            global_model: Not used: the client's model may be a mixture of its own and this one.
        """
        _copy(self._learning, self._latest)
        self._met = True
        if self._moment == "round":
            self._teach()

    def end_task(self) -> None:
        """Notes that the task has ended: before the next mini-batch, the teacher changes."""
        self._ended = self._moment == "task"

    def grow(self, classes: int, seed: int) -> None:
        """Adds outputs for new classes, which the teacher does not know.

        Args:
            classes: How many outputs there are now.
            seed: The run's seed, from which the weights of new outputs are drawn.
        """
        for model in (self._teaching, self._latest):
            grow_head(model, classes, seed)
            model.requires_grad_(False)
        missing = classes - len(self.known)
        self.known = torch.cat([self.known, self.known.new_zeros(missing)])
        self._seen = torch.cat([self._seen, self._seen.new_zeros(missing)])

    def state(self) -> State:
        """Returns both copies and what they know, for a checkpoint."""
        return {
            "teaching": saved_state(self._teaching),
            "latest": saved_state(self._latest),
            "known": self.known,
            "seen": self._seen,
            "ended": self._ended,
            "met": self._met,
        }

    def load_state(self, state: State) -> None:
        """Restores the teacher from what `state` returned."""
        load_saved(self._teaching, state["teaching"])
        load_saved(self._latest, state["latest"])
        self.known.copy_(state["known"])
        self._seen = state["seen"].clone()
        self._ended, self._met = bool(state["ended"]), bool(state["met"])


@torch.no_grad()
def _copy(source: nn.Module, into: nn.Module) -> None:
    """Copies the tensors of a model into another one, which keeps its tensors where they are."""
    own, other = saved_state(into), saved_state(source)
    copy_all(list(own.values()), [other[name] for name in own])
