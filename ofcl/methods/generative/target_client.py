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
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.memory.memory import Memory
from ofcl.methods.generative.target_losses import distillation_loss
from ofcl.methods.generative.target_server import normalised
from ofcl.methods.learner import measured
from ofcl.methods.losses import among, members
from ofcl.methods.parts import GenerativeParts
from ofcl.methods.proximal import ProximalTerm
from ofcl.pretrained.referred import copy_model, load_saved, saved_state
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state
from ofcl.uncertainty.change import Change


class TARGET:
    """TARGET's learner of a client.

    Args:
        model: The client's model, with a linear `head`.
        optimizer: The optimiser of the model.
        generator: The random generator of draws and augmentations.
        mean: The mean of each channel, with which images are normalised.
        std: The standard deviation of each channel, with which images are normalised.
        steps: Gradient steps for each mini-batch.
        synthetic: Synthetic images in each step.
        distillation: The weight of the distillation.
        augment: The change of new samples in all steps but the first.
    """

    memory: Memory | None = None

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        mean: Sequence[float] = (0.5,),
        std: Sequence[float] = (0.5,),
        steps: int = 3,
        synthetic: int = 10,
        distillation: float = 25.0,
        augment: Change | None = None,
    ) -> None:
        self.model, self.optimizer, self.generator = model, optimizer, generator
        self._mean, self._std = mean, std
        self.steps, self.synthetic, self.augment = steps, synthetic, augment
        self.distillation = distillation
        self.penalty: ProximalTerm | None = None
        self._teacher = copy_model(model).eval().requires_grad_(False)
        self._current: list[int] = []  # classes of the current task
        self._old = torch.empty(0, dtype=torch.long)  # classes of past tasks
        self._images = torch.empty(0, dtype=torch.uint8)  # that the server has made

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
        self.model.train()
        for step in range(self.steps):
            x = self.augment(batch.x, self.generator) if step and self.augment else batch.x
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
        logits = self.model(x)
        of_task = to_device(members(current, of=logits.shape[1]), x.device)
        learned = F.cross_entropy(among(logits, of_task), y)
        if not len(self._images):
            return learned, logits
        rows = torch.randint(len(self._images), (self.synthetic,), generator=self.generator)
        made = normalised(self._images[rows].to(x.device), self._mean, self._std)
        with torch.no_grad():
            taught = self._teacher(made)[:, self._old]
        distilled = distillation_loss(self.model(batchable(made))[: len(made), self._old], taught)
        return learned + self.distillation * distilled, logits

    def grow(self, classes: int, seed: int) -> None:
        """Raises an error: the head has all classes from the start."""
        raise OfclError("target cannot learn classes that nobody announced; use a memory method")

    def before_round(self) -> None:
        """Does nothing: TARGET needs no model from before a round."""

    def after_round(self, global_model: Tensors) -> None:
        """Moves FedProx's anchor to the new global model; does nothing without FedProx.

        Args:
            global_model: The global model's tensors by name.
        """
        if self.penalty is not None:
            self.penalty.after_round(global_model)

    def end_task(self) -> None:
        """Does nothing: teacher and images come from the server."""

    def before_test(self) -> None:
        """Does nothing: TARGET learns from mini-batches alone."""

    def sends(self) -> Tensors:
        """Returns the classes of the current task so far, under the name `now`, for the server."""
        return {"now": torch.tensor(self._current, dtype=torch.long)}

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes teacher and images for the next task from the server; forgets the current classes.

        Args:
            global_model: The global model at the end of the task.
            handed: The images, `images`, and the classes of past tasks, `old`.
        """
        self._teacher.load_state_dict(global_model, strict=False)
        self._take(handed["images"], handed["old"])
        self._current = []

    def _take(self, images: Tensor, old: Tensor) -> None:
        """Keeps the images on the CPU, and the old classes on the model's device."""
        self._images, self._old = images.cpu(), old.to(next(self.model.parameters()).device)

    def state(self) -> State:
        """Returns the learner's state without the model, for a checkpoint."""
        return {
            "optimizer": optimizer_state(self.optimizer),
            "generator": self.generator.get_state(),
            "images": self._images,
            "old": self._old,
            "now": self._current,
            "anchor": self.penalty.state() if self.penalty is not None else [],
            "teacher": saved_state(self._teacher) if len(self._images) else {},
        }

    def load_state(self, state: State) -> None:
        """Restores the learner from what `state` returned."""
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.generator.set_state(state["generator"])
        self._take(state["images"], state["old"])
        self._current = list(state["now"])
        if self.penalty is not None:
            self.penalty.load_state(state["anchor"])
        if state["teacher"]:
            load_saved(self._teacher, state["teacher"])


def client(parts: GenerativeParts) -> TARGET:
    """Builds TARGET's learner of a client.

    Args:
        parts: The parts that generative methods are built from.
    """
    return TARGET(
        model=parts.model,
        optimizer=parts.make_optimizer(),
        generator=parts.generator,
        mean=parts.mean,
        std=parts.std,
        steps=parts.steps,
        synthetic=parts.synthetic,
        distillation=parts.target_kd,
        augment=parts.augment,
    )
