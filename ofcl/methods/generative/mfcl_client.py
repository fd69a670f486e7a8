"""MFCL (Babakniya et al. 2023), online: the server trains a generator when a task has ended.

Server: a generator learns to make images that the frozen global model takes for those of classes
seen so far (`generator_loss`). Clients: from the second task on every step learns the mini-batch
together with images of that generator (`client_loss`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute.batching import batchable
from ofcl.compute.devices import to_device
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.memory.memory import Memory
from ofcl.methods.generative.mfcl_losses import distillation_loss
from ofcl.methods.learner import measured
from ofcl.methods.losses import among, members
from ofcl.methods.parts import GenerativeParts
from ofcl.models.generators import NOISE, ImageGenerator
from ofcl.seeds import private
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state
from ofcl.uncertainty.perturbations import Change

HEAD, DISTILLATION = 1.0, 0.1  # weights of the clients' second and third term


# The generator's loss


# The client's loss


@dataclass
class Teacher:
    """What a client has of the tasks before: the global model of then, and the generator."""

    model: nn.Module
    generator: ImageGenerator
    old: Tensor  # the classes of those tasks

    @torch.no_grad()
    def images(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Images, and the old class that the teacher takes each for."""
        made = self.generator(noise)
        return made, self.old[self.model(made)[:, self.old].argmax(1)]


class MFCL:
    """MFCL at a client."""

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
        penalty: Callable[[], Tensor] | None = None,
    ) -> None:
        self.model, self.optimizer, self.generator = model, optimizer, generator
        self.steps, self.synthetic, self.augment, self.penalty = steps, synthetic, augment, penalty
        self._now: list[int] = []  # classes of the current task
        self._teacher = Teacher(
            copy.deepcopy(model).eval().requires_grad_(False),
            image_generator.eval().requires_grad_(False),
            torch.empty(0, dtype=torch.long),
        )

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Takes the gradient steps on the mini-batch and, after the first task, on made images."""
        self._now = list(current)
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
        """The loss, and the logits of x."""
        if not len(self._teacher.old):
            logits = self.model(x)
            return F.cross_entropy(logits, y), logits
        noise = torch.randn(self.synthetic, NOISE, generator=self.generator).to(x.device)
        made, made_y = self._teacher.images(noise)
        both, labels = torch.cat([x, made]), torch.cat([y, made_y])
        features, head = self.model.features(both), self.model.head  # type: ignore[operator]
        with torch.no_grad():
            before = self._teacher.model.features(both)  # type: ignore[operator]
        logits = head(features[: len(x)])  # type: ignore[operator]
        old_head = self._teacher.model.get_submodule("head")
        assert isinstance(old_head, nn.Linear)
        now = to_device(members(current, of=logits.shape[1]), x.device)
        seen = now.index_fill(0, self._teacher.old, True)
        loss = F.cross_entropy(among(logits, now), y)
        loss = loss + HEAD * F.cross_entropy(
            among(head(features.detach()), seen),  # type: ignore[operator]
            labels,
        )
        return loss + DISTILLATION * distillation_loss(
            old_head, self._teacher.old, features, before
        ), logits

    def grow(self, classes: int, seed: int) -> None:
        """The head knows its classes from the start: streams are refused."""
        raise OfclError("mfcl cannot learn classes that nobody announced; use a memory method")

    def before_round(self) -> None:
        """Nothing is to be done before a round."""

    def after_round(self, global_model: Tensors) -> None:
        """Nor after it."""

    def end_task(self) -> None:
        """The teacher comes from the server."""

    def sends(self) -> Tensors:
        """Which classes are current: the server has to know what to make images of."""
        return {"now": torch.tensor(self._now, dtype=torch.long)}

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes the generator; the teacher is the global model at the end of the task."""
        self._teacher.model.load_state_dict(global_model, strict=False)
        self._teacher.old = handed["old"].to(next(self.model.parameters()).device)
        weights = {n.removeprefix("generator."): v for n, v in handed.items() if n != "old"}
        self._teacher.generator.load_state_dict(weights)
        self._now = []

    def state(self) -> State:
        """Everything but the model, for a checkpoint."""
        teacher = self._teacher
        return {
            "optimizer": optimizer_state(self.optimizer),
            "generator": self.generator.get_state(),
            "old": teacher.old,
            "now": self._now,
            "teacher": teacher.model.state_dict() if len(teacher.old) else {},
            "images": teacher.generator.state_dict() if len(teacher.old) else {},
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.generator.set_state(state["generator"])
        self._teacher.old = state["old"].to(next(self.model.parameters()).device)
        self._now = list(state["now"])
        if state["teacher"]:
            self._teacher.model.load_state_dict(state["teacher"])
            self._teacher.generator.load_state_dict(state["images"])


def image_generator(parts: GenerativeParts) -> ImageGenerator:
    """The generator that all parties start from."""
    with private(parts.seed, "image generator"):
        made = ImageGenerator(parts.shape, channels=2 * max(round(64 * parts.width / 20), 1))
    return made.to(next(parts.model.parameters()).device)


def client(parts: GenerativeParts) -> MFCL:
    """The method at a client."""
    return MFCL(
        model=parts.model,
        optimizer=parts.make_optimizer(),
        image_generator=image_generator(parts),
        generator=parts.generator,
        steps=parts.steps,
        synthetic=parts.synthetic,
        augment=parts.augment,
    )


def refuses(shape: tuple[int, ...]) -> str | None:
    """Says what is wrong with images of this shape.

    >>> [refuses((3, side, side)) for side in (28, 32, 64)]
    [None, None, None]
    >>> refuses((3, 30, 30))
    'square images with a side of 28, 32 or 64 (a multiple of 4, from 32 to 64 of 8)'
    """
    _, height, width = shape
    good = height == width <= 64 and width % (4 if width <= 32 else 8) == 0
    wanted = "square images with a side of 28, 32 or 64 (a multiple of 4, from 32 to 64 of 8)"
    return None if good else wanted
