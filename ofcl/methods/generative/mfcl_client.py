"""MFCL (Babakniya et al. 2023) at a client, online: it learns from new images and made ones.

In the first task, the loss is cross-entropy. From the second task on, every gradient step has a
mini-batch (x, y) and images x' that the server's generator makes. The teacher is the global model
at the end of the last task; the class y' of a made image is the one that the teacher predicts. The
loss is

    CE(x, y) among the classes of the task
  + CE(x and x', y and y') among all classes seen, for the head alone
  + 0.1 · `distillation_loss` of x and x'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute.devices import to_device
from ofcl.methods.generative.mfcl_generator import build_image_generator
from ofcl.methods.generative.mfcl_losses import distillation_loss
from ofcl.methods.generative.taught_learner import TaughtLearner
from ofcl.methods.losses import among, members
from ofcl.methods.parts import GenerativeParts
from ofcl.models.generators import NOISE, ImageGenerator
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State, Tensors

HEAD, DISTILLATION = 1.0, 0.1  # weights of the second and the third term


@dataclass
class Teacher:
    """The teacher of a client: the global model and the generator of the past tasks.

    Args:
        model: The global model at the end of the last task.
        generator: The generator that the server has trained with this model.
        old: The classes of the past tasks.
    """

    model: nn.Module
    generator: ImageGenerator
    old: Tensor

    @torch.no_grad()
    def images(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Makes images from noise, and classifies them among the old classes.

        Args:
            noise: The generator's noise, one row for each image.

        Returns:
            The images (n, C, H, W), and the old class (n,) that the teacher's model predicts for
            each.
        """
        made = self.generator(noise)
        return made, self.old[self.model(made)[:, self.old].argmax(1)]


class MFCLLesson:
    """MFCL's loss at a client, with the teacher that the server has handed out.

    Args:
        model: The client's model, with `features` and a linear `head`; the teacher begins as its
            copy.
        image_generator: The image generator, with the same weights at all clients and the server.
        generator: The random generator of noise.
        synthetic: Made images in each step.
    """

    def __init__(
        self,
        model: nn.Module,
        image_generator: ImageGenerator,
        generator: torch.Generator,
        synthetic: int = 10,
    ) -> None:
        self._device = next(model.parameters()).device
        self._generator, self._synthetic = generator, synthetic
        self._teacher = Teacher(
            copy_model(model).eval().requires_grad_(False),
            image_generator.eval().requires_grad_(False),
            torch.empty(0, dtype=torch.long),
        )

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
        if not len(self._teacher.old):
            logits = model(x)
            return F.cross_entropy(logits, y), logits
        noise = torch.randn(self._synthetic, NOISE, generator=self._generator).to(x.device)
        made, made_y = self._teacher.images(noise)
        both, both_y = torch.cat([x, made]), torch.cat([y, made_y])
        features, head = model.features(both), model.head  # type: ignore[operator]
        with torch.no_grad():
            before = self._teacher.model.features(both)  # type: ignore[operator]
        logits = head(features[: len(x)])  # type: ignore[operator]
        old_head = self._teacher.model.get_submodule("head")
        assert isinstance(old_head, nn.Linear)
        of_task = to_device(members(current, of=logits.shape[1]), x.device)
        seen = of_task.index_fill(0, self._teacher.old, True)
        loss = F.cross_entropy(among(logits, of_task), y)
        head_logits = head(features.detach())  # type: ignore[operator]
        loss = loss + HEAD * F.cross_entropy(among(head_logits, seen), both_y)
        change = distillation_loss(old_head, self._teacher.old, features, before)
        return loss + DISTILLATION * change, logits

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes the teacher for the next task.

        Args:
            global_model: The global model at the end of the task.
            handed: The generator's weights and, under the name `old`, the classes of past tasks.
        """
        self._teacher.model.load_state_dict(global_model, strict=False)
        self._teacher.old = handed["old"].to(self._device)
        weights = {n.removeprefix("generator."): v for n, v in handed.items() if n != "old"}
        self._teacher.generator.load_state_dict(weights)

    def state(self) -> State:
        """Returns the teacher, for a checkpoint; before the second task there is none."""
        teacher = self._teacher
        return {
            "old": teacher.old,
            "teacher": saved_state(teacher.model) if len(teacher.old) else {},
            "images": teacher.generator.state_dict() if len(teacher.old) else {},
        }

    def load_state(self, state: State) -> None:
        """Restores the teacher from what `state` returned."""
        self._teacher.old = state["old"].to(self._device)
        if state["teacher"]:
            load_saved(self._teacher.model, state["teacher"])
            self._teacher.generator.load_state_dict(state["images"])


def client(parts: GenerativeParts) -> TaughtLearner:
    """Builds MFCL's learner of a client.

    Args:
        parts: The parts that generative methods are built from.
    """
    return TaughtLearner(
        "mfcl",
        model=parts.model,
        optimizer=parts.make_optimizer(),
        lesson=MFCLLesson(
            parts.model, build_image_generator(parts), parts.generator, parts.synthetic
        ),
        generator=parts.generator,
        steps=parts.steps,
        augment=parts.augment,
    )
