"""TARGET (Zhang et al. 2023) at a client, online: it learns from new samples and synthetic images.

With x the new samples, x' images that the server has made, and the global model at the end of the
last task as the teacher, the loss is

    CE(x, y) among the classes of the task + 25 · `distillation_loss` of x' over the old classes

The second term starts with the second task. In the first, too, the outputs of later classes take no
part: neither term could raise them again against those of old classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute.batching import batchable
from ofcl.compute.devices import to_device
from ofcl.methods.generative.target_losses import distillation_loss
from ofcl.methods.generative.target_server import normalised
from ofcl.methods.generative.taught_learner import TaughtLearner
from ofcl.methods.losses import among, members
from ofcl.methods.parts import GenerativeParts
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State, Tensors


class TARGETLesson:
    """TARGET's loss at a client, with the images that the server has made.

    Args:
        model: The client's model, with a linear `head`; the teacher begins as its copy.
        generator: The random generator of draws.
        mean: The mean of each channel, with which images are normalised.
        std: The standard deviation of each channel, with which images are normalised.
        synthetic: Synthetic images in each step.
        distillation: The weight of the distillation.
    """

    def __init__(
        self,
        model: nn.Module,
        generator: torch.Generator,
        mean: Sequence[float] = (0.5,),
        std: Sequence[float] = (0.5,),
        synthetic: int = 10,
        distillation: float = 25.0,
    ) -> None:
        self._device = next(model.parameters()).device
        self._generator, self._mean, self._std = generator, mean, std
        self._synthetic, self._distillation = synthetic, distillation
        self._teacher = copy_model(model).eval().requires_grad_(False)
        self._old = torch.empty(0, dtype=torch.long)  # classes of past tasks
        self._images = torch.empty(0, dtype=torch.uint8)  # that the server has made

    def loss(
        self, model: nn.Module, x: Tensor, y: Tensor, current: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Computes the client's loss in one gradient step (at the top of this file).

        Args:
            model: The client's model.
            x: The new images.
            y: The classes of the new images.
            current: The classes of the current task so far.

        Returns:
            The loss, and the logits of the new images.
        """
        logits = model(x)
        of_task = to_device(members(current, of=logits.shape[1]), x.device)
        learned = F.cross_entropy(among(logits, of_task), y)
        if not len(self._images):
            return learned, logits
        rows = torch.randint(len(self._images), (self._synthetic,), generator=self._generator)
        made = normalised(self._images[rows].to(x.device), self._mean, self._std)
        with torch.no_grad():
            taught = self._teacher(made)[:, self._old]
        distilled = distillation_loss(model(batchable(made))[: len(made), self._old], taught)
        return learned + self._distillation * distilled, logits

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes teacher and images for the next task.

        Args:
            global_model: The global model at the end of the task.
            handed: The images, `images`, and the classes of past tasks, `old`.
        """
        self._teacher.load_state_dict(global_model, strict=False)
        self._take(handed["images"], handed["old"])

    def _take(self, images: Tensor, old: Tensor) -> None:
        """Keeps the images on the CPU, and the old classes on the model's device."""
        self._images, self._old = images.cpu(), old.to(self._device)

    def state(self) -> State:
        """Returns images, past classes and teacher, for a checkpoint."""
        return {
            "images": self._images,
            "old": self._old,
            "teacher": saved_state(self._teacher) if len(self._images) else {},
        }

    def load_state(self, state: State) -> None:
        """Restores images, past classes and teacher from what `state` returned."""
        self._take(state["images"], state["old"])
        if state["teacher"]:
            load_saved(self._teacher, state["teacher"])


def client(parts: GenerativeParts) -> TaughtLearner:
    """Builds TARGET's learner of a client.

    Args:
        parts: The parts that generative methods are built from.
    """
    return TaughtLearner(
        "target",
        model=parts.model,
        optimizer=parts.make_optimizer(),
        lesson=TARGETLesson(
            parts.model,
            parts.generator,
            mean=parts.mean,
            std=parts.std,
            synthetic=parts.synthetic,
            distillation=parts.target_kd,
        ),
        generator=parts.generator,
        steps=parts.steps,
        augment=parts.augment,
    )
