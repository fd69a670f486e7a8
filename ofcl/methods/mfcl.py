"""MFCL (Babakniya et al. 2023), online: the server trains a generator when a task has ended.

Server: a generator learns to make images that the frozen global model takes for those of classes
seen so far (`generator_loss`). Clients: from the second task on every step learns the mini-batch
together with images of that generator (`client_loss`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.batching import batchable
from ofcl.data.stream import Batch
from ofcl.devices import sent
from ofcl.errors import OfclError
from ofcl.losses import among, members
from ofcl.memory import Memory
from ofcl.methods.learner import measured
from ofcl.methods.parts import GenerativeParts, shown
from ofcl.models.generators import NOISE, ImageGenerator
from ofcl.perturb import Change
from ofcl.seeds import private
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state
from ofcl.update import Update

TEMPERATURE = 1000.0  # of the generator's label term, as released
BALANCE, STATISTICS, SMOOTHNESS = 1.0, 50.0, 1e-3  # weights of its other terms
HEAD, DISTILLATION = 1.0, 0.1  # weights of the clients' second and third term

Labels = Literal["teacher", "noise"]
"""What a made image is of: what the teacher takes it for, or the largest of its first noises."""


# The generator's loss


def label_loss(logits: Tensor, labels: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Cross-entropy of the teacher's logits of made images, at a temperature."""
    return F.cross_entropy(logits / temperature, labels)


def balance_loss(logits: Tensor) -> Tensor:
    """1 + Σ_c p̄_c ln p̄_c / ln q: 0 when all q classes are made equally often.

    >>> round(balance_loss(torch.eye(4) * 100).item(), 4), balance_loss(torch.zeros(3, 1)).item()
    (0.0, 0.0)
    """
    classes = logits.shape[1]
    if classes < 2:
        return logits.sum() * 0
    mean = logits.softmax(1).mean(0).clamp_min(1e-12)
    return 1 + (mean * mean.log()).sum() / torch.tensor(float(classes)).log().to(mean)


def statistics_loss(
    mean: Tensor, variance: Tensor, running_mean: Tensor, running_variance: Tensor
) -> Tensor:
    """How far a layer's input is from what it was in training, mean over the channels.

    ln(σ/σ_r) − ½ (1 − (σ_r² + (μ_r − μ)²) / σ²)
    """
    ratio = (running_variance + (running_mean - mean) ** 2) / variance
    return (0.5 * (variance / running_variance).log() - 0.5 * (1 - ratio)).mean()


def smoothness_loss(images: Tensor) -> Tensor:
    """The squared difference between images and what a Gaussian of 5 × 5 pixels makes of them."""
    places = torch.arange(5, device=images.device) - 2.0
    bell = torch.exp(-((places / 2) ** 2))
    kernel = torch.outer(bell, bell) / bell.sum() ** 2
    channels = images.shape[1]
    padded = F.pad(images, (2, 2, 2, 2), mode="reflect")
    smooth = F.conv2d(padded, kernel.expand(channels, 1, 5, 5), groups=channels)
    return F.mse_loss(images, smooth)


@contextmanager
def watched_statistics(teacher: nn.Module) -> Iterator[list[Tensor]]:
    """A list that gets the statistics loss of every BatchNorm layer in each forward."""
    losses: list[Tensor] = []

    def look(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(layer, nn.BatchNorm2d)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        variance, mean = torch.var_mean(inputs[0], dim=(0, 2, 3), correction=0)
        losses.append(
            statistics_loss(mean, variance.clamp_min(1e-8), layer.running_mean,
                            layer.running_var.clamp_min(1e-8))
        )  # fmt: skip

    hooks = [m.register_forward_hook(look) for m in teacher.modules()
             if isinstance(m, nn.BatchNorm2d)]  # fmt: skip
    try:
        yield losses
    finally:
        for hook in hooks:
            hook.remove()


def generator_loss(
    teacher: nn.Module, images: Tensor, noise: Tensor, seen: Tensor, labels: Labels
) -> Tensor:
    """The four terms, for images made of noise; `seen` are the classes to make."""
    with watched_statistics(teacher) as statistics:
        logits = teacher(images)[:, seen]
    wanted = logits.argmax(1) if labels == "teacher" else noise[:, : len(seen)].argmax(1)
    return (
        label_loss(logits, wanted)
        + BALANCE * balance_loss(logits)
        + STATISTICS * (torch.stack(statistics).mean() if statistics else images.sum() * 0)
        + SMOOTHNESS * smoothness_loss(images)
    )


# The client's loss


def distillation_loss(old_head: nn.Linear, old: Tensor, new: Tensor, before: Tensor) -> Tensor:
    """The mean over samples of ‖W_o φ(x) − W_o φ_o(x)‖² / q: the old head sees what it saw.

    `new` are the features φ, `before` the teacher's φ_o, `old` the q old classes.
    """
    weight = old_head.weight[old]
    return ((new - before) @ weight.T).square().sum(1).mean() / len(old)


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
        first_logits, y = torch.empty(0), sent(batch.y, batch.x.device)
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
        now = sent(members(current, of=logits.shape[1]), x.device)
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


class MFCLServer:
    """MFCL at the server: trains the generator when a task has ended for everybody."""

    every_round = False

    def __init__(
        self,
        *,
        model: nn.Module,
        image_generator: ImageGenerator,
        generator: torch.Generator,
        steps: int = 100,
        batch: int = 128,
        labels: Labels = "teacher",
        mean: Sequence[float] = (0.5,),
        std: Sequence[float] = (0.5,),
    ) -> None:
        self._model, self._images = model.eval().requires_grad_(False), image_generator
        self._generator, self._steps, self._batch, self._labels = generator, steps, batch, labels
        self._mean, self._std = mean, std
        self._seen: list[int] = []

    def after_round(self, model: Tensors, updates: Sequence[Update]) -> Tensors:
        """Hears of new classes; the averaged model stays as it is."""
        now = {c for update in updates for c in update.extras["now"].tolist()}
        self._seen = sorted({*self._seen, *now})
        return {}

    def end_task(self, model: Tensors) -> Tensors:
        """Trains the generator on the global model; a new optimiser, but no new generator."""
        self._model.load_state_dict(model, strict=False)
        if self._seen:
            self.train()
        handed = {f"generator.{name}": v for name, v in self._images.state_dict().items()}
        return handed | {"old": torch.tensor(self._seen, dtype=torch.long)}

    def train(self) -> list[float]:
        """Trains the generator; gives the loss of every step."""
        device = next(self._images.parameters()).device
        seen = torch.tensor(self._seen, device=device)
        optimizer = torch.optim.Adam(self._images.parameters(), lr=1e-3)
        self._images.train()
        losses = []
        with torch.enable_grad():
            for _ in range(self._steps):
                noise = torch.randn(self._batch, NOISE, generator=self._generator).to(device)
                images = self._images(noise)
                loss = generator_loss(self._model, images, noise, seen, self._labels)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(loss.detach())
        self._images.eval()
        return torch.stack(losses).tolist() if losses else []

    @torch.no_grad()
    def pictures(self, each: int) -> dict[int, Tensor]:
        """Images by the class that the teacher takes them for; a class may have fewer, or none."""
        if not self._seen:
            return {}
        device = next(self._images.parameters()).device
        seen = torch.tensor(self._seen, device=device)
        draw = torch.Generator().manual_seed(0)  # looking does not move the run's draws
        found: dict[int, list[Tensor]] = {c: [] for c in self._seen}
        for _ in range(each):  # a class that the teacher hardly sees may stay without
            made = self._images.eval()(torch.randn(256, NOISE, generator=draw).to(device))
            taken_for = seen[self._model(made)[:, seen].argmax(1)].tolist()
            for image, c in zip(shown(made, self._mean, self._std), taken_for, strict=True):
                if len(found[c]) < each:
                    found[c].append(image)
        return {c: torch.stack(images) if images else made[:0].cpu() for c, images in found.items()}

    def state(self) -> State:
        """Everything, for a checkpoint."""
        return {
            "images": self._images.state_dict(),
            "model": self._model.state_dict(),
            "seen": self._seen,
            "generator": self._generator.get_state(),
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        self._images.load_state_dict(state["images"])
        self._model.load_state_dict(state["model"])
        self._seen = list(state["seen"])
        self._generator.set_state(state["generator"])


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


def server(parts: GenerativeParts) -> MFCLServer:
    """The method at the server."""
    return MFCLServer(
        model=parts.model,
        image_generator=image_generator(parts),
        generator=parts.generator,
        steps=parts.generator_steps,
        labels=parts.generator_labels,
        mean=parts.mean,
        std=parts.std,
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
