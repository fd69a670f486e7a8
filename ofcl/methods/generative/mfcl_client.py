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

from ofcl.compute.batching import batchable
from ofcl.compute.devices import to_device
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.memory.memory import Memory
from ofcl.methods.generative.mfcl_generator import build_image_generator
from ofcl.methods.generative.mfcl_losses import distillation_loss
from ofcl.methods.learner import measured
from ofcl.methods.losses import among, members
from ofcl.methods.parts import GenerativeParts
from ofcl.methods.proximal import ProximalTerm
from ofcl.models.generators import NOISE, ImageGenerator
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state
from ofcl.uncertainty.change import Change

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


class MFCL:
    """MFCL's learner of a client.

    Args:
        model: The client's model, with `features` and a linear `head`.
        optimizer: The optimiser of the model.
        image_generator: The image generator, with the same weights at all clients and the server.
        generator: The random generator of noise and augmentations.
        steps: Gradient steps for each mini-batch.
        synthetic: Made images in each step.
        augment: The change of new samples in all steps but the first.
        penalty: A term that is added to the loss of every step (FedProx).
    """

    memory: Memory | None = None

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        image_generator: ImageGenerator,
        generator: torch.Generator,
        steps: int = 3,
        synthetic: int = 10,
        augment: Change | None = None,
        penalty: ProximalTerm | None = None,
    ) -> None:
        self.model, self.optimizer, self.generator = model, optimizer, generator
        self.steps, self.synthetic, self.augment, self.penalty = steps, synthetic, augment, penalty
        self._current: list[int] = []  # classes of the current task
        self._teacher = Teacher(
            copy_model(model).eval().requires_grad_(False),
            image_generator.eval().requires_grad_(False),
            torch.empty(0, dtype=torch.long),
        )

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Takes the gradient steps on the mini-batch and, after the first task, on made images.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.

        Returns:
            The measurements of the mini-batch (`measured`).
        """
        self._current = list(current)
        losses: list[Tensor] = []
        first_logits, y = torch.empty(0), to_device(batch.y, batch.x.device)
        for step in range(self.steps):
            x = self.augment(batch.x, self.generator) if step and self.augment else batch.x
            self.model.train()
            loss, logits = self._loss(batchable(x), batchable(y), current)
            if step == 0:
                first_logits = logits[: len(y)].detach()
            losses.append(loss.detach())
            if self.penalty is not None:
                loss = loss + self.penalty()
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return measured(first_logits, y, torch.stack(losses), self.model.parameters())

    def _loss(self, x: Tensor, y: Tensor, current: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Computes the client's loss in one gradient step (at the top of this file).

        Args:
            x: The new images.
            y: The classes of the new images.
            current: The classes of the current task so far.

        Returns:
            The loss, and the logits of the new images.
        """
        if not len(self._teacher.old):
            logits = self.model(x)
            return F.cross_entropy(logits, y), logits
        noise = torch.randn(self.synthetic, NOISE, generator=self.generator).to(x.device)
        made, made_y = self._teacher.images(noise)
        both, both_y = torch.cat([x, made]), torch.cat([y, made_y])
        features, head = self.model.features(both), self.model.head  # type: ignore[operator]
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

    def grow(self, classes: int, seed: int) -> None:
        """Raises an error: the head has all classes from the start."""
        raise OfclError("mfcl cannot learn classes that nobody announced; use a memory method")

    def before_round(self) -> None:
        """Does nothing: MFCL needs no model from before a round."""

    def after_round(self, global_model: Tensors) -> None:
        """Moves FedProx's anchor to the new global model; does nothing without FedProx.

        Args:
            global_model: The global model's tensors by name.
        """
        if self.penalty is not None:
            self.penalty.after_round(global_model)

    def end_task(self) -> None:
        """Does nothing: the teacher comes from the server."""

    def before_test(self) -> None:
        """Does nothing: MFCL learns from mini-batches alone."""

    def sends(self) -> Tensors:
        """Returns the classes of the current task so far, under the name `now`, for the server."""
        return {"now": torch.tensor(self._current, dtype=torch.long)}

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes the teacher for the next task from the server, and forgets the current classes.

        Args:
            global_model: The global model at the end of the task.
            handed: The generator's weights and, under the name `old`, the classes of past tasks.
        """
        self._teacher.model.load_state_dict(global_model, strict=False)
        self._teacher.old = handed["old"].to(next(self.model.parameters()).device)
        weights = {n.removeprefix("generator."): v for n, v in handed.items() if n != "old"}
        self._teacher.generator.load_state_dict(weights)
        self._current = []

    def state(self) -> State:
        """Returns the learner's state without the model, for a checkpoint."""
        teacher = self._teacher
        return {
            "optimizer": optimizer_state(self.optimizer),
            "generator": self.generator.get_state(),
            "old": teacher.old,
            "now": self._current,
            "anchor": self.penalty.state() if self.penalty is not None else [],
            "teacher": saved_state(teacher.model) if len(teacher.old) else {},
            "images": teacher.generator.state_dict() if len(teacher.old) else {},
        }

    def load_state(self, state: State) -> None:
        """Restores the learner from what `state` returned."""
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.generator.set_state(state["generator"])
        self._teacher.old = state["old"].to(next(self.model.parameters()).device)
        self._current = list(state["now"])
        if self.penalty is not None:
            self.penalty.load_state(state["anchor"])
        if state["teacher"]:
            load_saved(self._teacher.model, state["teacher"])
            self._teacher.generator.load_state_dict(state["images"])


def client(parts: GenerativeParts) -> MFCL:
    """Builds MFCL's learner of a client.

    Args:
        parts: The parts that generative methods are built from.
    """
    return MFCL(
        model=parts.model,
        optimizer=parts.make_optimizer(),
        image_generator=build_image_generator(parts),
        generator=parts.generator,
        steps=parts.steps,
        synthetic=parts.synthetic,
        augment=parts.augment,
    )
