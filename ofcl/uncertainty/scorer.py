"""The scorer of a client: computes how uncertain its model is about samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute import foreach
from ofcl.compute.batching import forward_size
from ofcl.compute.cuda_graphs import Captured
from ofcl.compute.devices import to_device
from ofcl.models.head import grow_head
from ofcl.models.norm import in_parts
from ofcl.pretrained.referred import copy_model, load_saved, referred, saved_state
from ofcl.state import State
from ofcl.uncertainty.change import Perturbation
from ofcl.uncertainty.draw_ahead import Draws
from ofcl.uncertainty.scores import Score

MOST_LOTS = 4  # in a captured call; larger calls are rare, and fast without a capture


@torch.no_grad()
def uncertainty(
    model: nn.Module,
    views: Tensor,
    score: Score,
    mode: Literal["eval", "train"] = "eval",
) -> Tensor:
    """Computes how uncertain a model is about samples; the model does not change.

    Args:
        model: The model whose predictions are scored.
        views: The perturbed copies of n samples, (views, n, …).
        score: A function of the copies' logits.
        mode: `eval`: BatchNorm uses its running statistics; `train`: it uses the statistics of the
            n copies of each view.

    Returns:
        The uncertainty of each sample, (n,).
    """
    training, most = model.training, forward_size(views.device)
    if training != (mode == "train"):  # setting it takes a while
        model.train(mode == "train")
    n = views.shape[1]
    if mode == "train":
        views = views if n > 1 else torch.cat([views, views], 1)  # a single one has no statistics
        logits = []
        # A CPU is faster with one view at a time, a GPU with fewer kernels.
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
    """Lists the parameters of a model that may change, and its buffers of floats, in order."""
    known = referred(model)
    named = [*model.named_parameters(), *model.named_buffers()]
    return [value for name, value in named if value.is_floating_point() and name not in known]


class Scorer:
    """Computes a client's scores: by its model as it is now, or by a copy from its last round.

    A CUDA device scores samples in lots of a fixed size, so that few shapes have to be captured. A
    last lot that is not full is filled up. In `train` mode there are no lots, as the added samples
    would change the scores of the others.

    Args:
        model: The client's model, which learns.
        score: A function of the logits of samples' copies; if it is a labelled one, of the samples'
            classes too.
        as_of: `current`: the model as it is; `after-round`, `before-round`: a copy of it from just
            after, or before, the client last took the global model.
        perturb: Makes the copies of a sample.
        mode: `eval`: BatchNorm uses its running statistics; `train`: those of the scored samples.
        generator: The generator of the perturbations; nothing else may use it.
        lot: The number of samples in a lot.
    """

    def __init__(
        self,
        model: nn.Module,
        score: Callable[..., Tensor],
        *,
        as_of: Literal["current", "after-round", "before-round"],
        perturb: Perturbation,
        mode: Literal["eval", "train"] = "eval",
        generator: torch.Generator,
        lot: int = 5,
    ) -> None:
        self._learning = model
        frozen = as_of != "current"
        self.model = copy_model(model).train(mode == "train") if frozen else model
        self.score, self._as_of, self._mode, self._lot = score, as_of, mode, lot
        self._draws = Draws(perturb, generator)
        self._device = next(model.parameters()).device
        self._captured = Captured(self._scored, self._device)
        self._bind()

    def _bind(self) -> None:
        """Lists the tensors of the client's model and its copy once: finding them takes long."""
        self._copied, self._copies = _numbers(self._learning), _numbers(self.model)

    @property
    def frozen(self) -> bool:
        """Whether a copy of the client's model scores, which gradient steps do not change."""
        return self.model is not self._learning

    def views_of(self, x: Tensor) -> Tensor:
        """Makes the perturbed copies (views, n, …) of samples, without scoring them; on a CPU.

        So a caller can score the copies of several clients at once.

        Args:
            x: The samples (n, …).
        """
        (draws,) = self._draws.next(x.shape)
        return self._draws.change.apply(x, draws)

    def uncertainty_of(self, x: Tensor, *y: Tensor) -> Tensor:
        """Computes the uncertainty (n,) of samples; on a CUDA device, queues the work.

        Args:
            x: The samples (n, …).
            y: Their classes (n,) on the CPU, for a labelled score; nothing for others.
        """
        (draws,), n = self._draws.next(x.shape), len(x)
        if self._mode == "train":
            return self._captured(x, draws, *y)
        whole = -(-n // self._lot) * self._lot
        if self._device.type == "cpu" or whole > MOST_LOTS * self._lot:
            return self._scored(*(to_device(values, self._device) for values in (x, draws, *y)))
        if whole > n:  # repeat the last sample until the lot is full
            rows = torch.arange(whole).clamp(max=n - 1)
            x, draws = x[to_device(rows, self._device)], draws[:, rows]
            y = tuple(classes[rows] for classes in y)
        return self._captured(x, draws, *y)[:n]

    def _scored(self, x: Tensor, draws: Tensor, *y: Tensor) -> Tensor:
        """Computes the uncertainty (n,) of samples, all on the device.

        Args:
            x: The samples (n, …).
            draws: The random numbers of their perturbations.
            y: Their classes (n,), for a labelled score; nothing for others.
        """
        views = self._draws.change.apply(x, draws)
        score = (lambda logits: self.score(logits, *y)) if y else self.score
        return uncertainty(self.model, views, score, self._mode)

    @torch.no_grad()
    def distances_between(self, x: Tensor) -> Tensor:
        """Computes the distance between every two samples: 1 − the cosine of their features.

        Args:
            x: The samples (n, …).

        Returns:
            Distances (n, n).
        """
        training = self.model.training
        self.model.eval()
        parts = torch.split(x, forward_size(x.device))
        features = [self.model.features(part) for part in parts]  # type: ignore[operator]
        self.model.train(training)
        z = F.normalize(torch.cat(features).flatten(1), dim=1)
        return 1 - z @ z.T

    def grow(self, classes: int, seed: int) -> None:
        """Adds outputs for new classes to the model that scores.

        If samples are scored by the client's own model, its outputs must have been added already.

        Args:
            classes: The number of classes now.
            seed: The run's seed, from which new outputs start.
        """
        if self.frozen:
            grow_head(self.model, classes, seed)
        self._bind()
        self._captured.forget()

    def round_passed(self, when: Literal["before-round", "after-round"]) -> None:
        """Copies the client's model anew, if this is the moment that `as_of` names.

        Args:
            when: `before-round`: the client is about to take the global model; `after-round`: it
                has just taken it.
        """
        if when == self._as_of:
            with torch.no_grad():
                foreach.copy_all(self._copies, self._copied)

    def state(self) -> State:
        """Returns the copy of the model (if none, {}) and the generator, for a checkpoint."""
        return {
            "model": saved_state(self.model) if self.frozen else {},
            "generator": self._draws.state(),
        }

    def load_state(self, state: State) -> None:
        """Puts back the copy of the model and the generator.

        Args:
            state: The state that `state` returned.
        """
        self._draws.load_state(state["generator"])
        if state["model"]:
            load_saved(self.model, state["model"])
