"""Scorers: a model that says how uncertain it is about samples."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from ofcl.compute import foreach
from ofcl.compute.batching import forward_size
from ofcl.compute.cuda_graphs import Captured
from ofcl.compute.devices import to_device
from ofcl.models.head import grow_head
from ofcl.models.norm import in_parts
from ofcl.state import State
from ofcl.uncertainty.draw_ahead import Draws
from ofcl.uncertainty.perturbations import Perturbation
from ofcl.uncertainty.scores import Score

MOST_LOTS = 4  # that are captured; more at once are rare, and large enough to be fast as they are


@torch.no_grad()
def uncertainty(
    model: nn.Module,
    views: Tensor,
    score: Score,
    mode: Literal["eval", "train"] = "eval",
) -> Tensor:
    """The uncertainty (n,) of samples whose copies (views, n, …) a model sees; it stays as it was.

    In `train` mode BatchNorm uses the statistics of each view's own batch.
    """
    training, most = model.training, forward_size(views.device)
    if training != (mode == "train"):  # setting it takes a while, and a copy that scores stays so
        model.train(mode == "train")
    n = views.shape[1]
    if mode == "train":
        views = views if n > 1 else torch.cat([views, views], 1)  # a lone one has no statistics
        logits = []
        # A CPU is faster with one at a time, a GPU with whatever takes fewer kernels.
        together = 1 if views.device.type == "cpu" else max(most // views.shape[1], 1)
        for some in torch.split(views, together):
            with in_parts(model, len(some)):
                logits.append(model(some.flatten(0, 1)))
    else:
        logits = [model(part) for part in torch.split(views.flatten(0, 1), most)]
    if model.training != training:
        model.train(training)
    return score(torch.cat(logits).view(*views.shape[:2], -1)[:, :n])


def _numbers(model: nn.Module) -> list[Tensor]:
    """The parameters and statistics of a model; not its counters."""
    return [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]


class Scorer:
    """The model that scores a client's samples: its own as of now, or as of its last round.

    A CUDA device scores whole lots, so that few shapes are to be captured. In `train` mode a lot
    cannot be filled up: the samples change each other's scores.
    """

    def __init__(
        self,
        model: nn.Module,
        score: Score,
        *,
        as_of: Literal["current", "after-round", "before-round"],
        perturb: Perturbation,
        mode: Literal["eval", "train"] = "eval",
        generator: torch.Generator,
        lot: int = 5,
    ) -> None:
        self._learning = model
        frozen = as_of != "current"
        self._scoring = copy.deepcopy(model).train(mode == "train") if frozen else model
        self._score, self._as_of, self._mode, self._lot = score, as_of, mode, lot
        self._draws = Draws(perturb, generator)
        self._device = next(model.parameters()).device
        self._captured = Captured(self._scored, self._device)
        self._bind()

    def _bind(self) -> None:
        """Takes hold of the numbers of both models: finding them takes long."""
        self._copied, self._copies = _numbers(self._learning), _numbers(self._scoring)

    @property
    def frozen(self) -> bool:
        """Whether gradient steps do not change it: a sample scores the same before them."""
        return self._scoring is not self._learning

    def uncertainty_of(self, x: Tensor) -> Tensor:
        """The uncertainty (n,) of samples; on a CUDA device it may still be on its way."""
        (draws,), n = self._draws.next(x.shape), len(x)
        if self._mode == "train":
            return self._captured(x, draws)
        whole = -(-n // self._lot) * self._lot
        if self._device.type == "cpu" or whole > MOST_LOTS * self._lot:
            return self._scored(x, to_device(draws, self._device))
        if whole > n:  # the last one fills the lot
            rows = torch.arange(whole).clamp(max=n - 1)
            x, draws = x[to_device(rows, self._device)], draws[:, rows]
        return self._captured(x, draws)[:n]

    def _scored(self, x: Tensor, draws: Tensor) -> Tensor:
        views = self._draws.change.apply(x, draws)
        return uncertainty(self._scoring, views, self._score, self._mode)

    def grow(self, classes: int, seed: int) -> None:
        """Gives the scoring model outputs for new classes, if it is a copy."""
        if self.frozen:
            grow_head(self._scoring, classes, seed)
        self._bind()
        self._captured.forget()

    def round_passed(self, when: Literal["before-round", "after-round"]) -> None:
        """Called before and after the client takes the global model: refreshes if it is time."""
        if when == self._as_of:
            with torch.no_grad():
                foreach.copy_all(self._copies, self._copied)

    def state(self) -> State:
        """Everything, for a checkpoint."""
        return {
            "model": self._scoring.state_dict() if self.frozen else {},
            "generator": self._draws.state(),
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        self._draws.load_state(state["generator"])
        if state["model"]:
            self._scoring.load_state_dict(state["model"])
