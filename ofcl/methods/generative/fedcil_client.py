"""FedCIL (Qi et al. 2023), online: every client trains an ACGAN whose critic is the classifier.

Client: the critic learns to tell real images from made ones and all from each other by class, the
generator to deceive it; images of past classes come from the generator as it was at the end of the
last task. Server: after averaging, the ACGAN is trained on what the clients' generators make.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute.batching import batchable
from ofcl.compute.devices import to_device
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.memory.memory import Memory
from ofcl.methods.generative.fedcil_losses import critic_loss, divergence, generator_loss
from ofcl.methods.learner import measured
from ofcl.methods.parts import GenerativeParts
from ofcl.methods.proximal import ProximalTerm
from ofcl.models.generators import ACGAN, ACGAN_NOISE, ACGAN_SIDE, ClassGenerator
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state

SERVER_BATCH = 32  # images of a consolidation step, and those that every client's generator makes


# The losses


class Draws:
    """Noise and classes for a generator, from a generator of random numbers of its own."""

    def __init__(self, generator: torch.Generator, classes: int, device: torch.device) -> None:
        self.generator, self.size, self._device = generator, ACGAN_NOISE + classes, device

    def noise(self, n: int) -> Tensor:
        """Noise (n, 100 + classes)."""
        return torch.randn(n, self.size, generator=self.generator).to(self._device)

    def seed(self) -> int:
        """A seed for draws that are made elsewhere."""
        return int(torch.randint(2**62, (1,), generator=self.generator))

    def labels(self, n: int, among: Sequence[int]) -> Tensor:
        """Classes (n,), each of these equally likely."""
        chosen = torch.randint(len(among), (n,), generator=self.generator)
        return torch.tensor(sorted(among))[chosen].to(self._device)


class Pool:
    """Images to draw from, so that every class is equally likely."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels
        on_cpu = labels.cpu()
        self._weights = 1.0 / torch.bincount(on_cpu)[on_cpu]

    def draw(self, draws: Draws) -> tuple[Tensor, Tensor]:
        """A batch of images and their classes."""
        rows = torch.multinomial(
            self._weights, SERVER_BATCH, replacement=True, generator=draws.generator
        ).to(self.images.device)
        return self.images[rows], self.labels[rows]


class Adversaries:
    """The two optimisers of an ACGAN, and a step of each."""

    def __init__(self, gan: ACGAN, lr: float) -> None:
        self.gan, self._lr = gan, lr
        self.renew()

    def renew(self) -> None:
        """Forgets what the optimisers have gathered."""
        made: list[nn.Parameter] = []
        judged: list[nn.Parameter] = []
        for name, parameter in self.gan.named_parameters():
            (made if name.startswith("generator.") else judged).append(parameter)
        betas, fused = (0.5, 0.999), made[0].is_cuda
        self.critic = torch.optim.Adam(judged, lr=self._lr, betas=betas, fused=fused)
        self.generator = torch.optim.Adam(made, lr=self._lr, betas=betas, fused=fused)

    def judge(self, critic_loss: Tensor) -> None:
        """A step of the critic."""
        self.critic.zero_grad()
        critic_loss.backward()  # type: ignore[no-untyped-call]
        self.critic.step()

    def deceive(self, noise: Tensor, y: Tensor, penalty: Tensor | float = 0.0) -> Tensor:
        """A step of the generator; gives its loss."""
        loss = generator_loss(self.gan, self.gan.make(noise, y), y) + penalty
        self.generator.zero_grad()
        loss.backward(inputs=list(self.gan.generator.parameters()))  # type: ignore[no-untyped-call]
        self.generator.step()
        return loss.detach()

    def state(self) -> State:
        """Everything, for a checkpoint."""
        return {
            "critic": optimizer_state(self.critic),
            "generator": optimizer_state(self.generator),
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        load_optimizer_state(self.critic, state["critic"])
        load_optimizer_state(self.generator, state["generator"])


class FedCIL:
    """FedCIL at a client."""

    memory: Memory | None = None

    def __init__(
        self,
        *,
        model: ACGAN,
        classes: int,
        generator: torch.Generator,
        steps: int = 3,
        lr: float = 2e-4,
        consistency: float = 1.0,
    ) -> None:
        self.model, self.steps, self.consistency = model, steps, consistency
        self._draws = Draws(generator, classes, next(model.parameters()).device)
        self._adversaries = Adversaries(model, lr)
        self._last = _frozen(model.generator)  # as of the end of the last task
        self._ending = _frozen(model.generator)  # as of the end of this one, before its last round
        self._server = _frozen(model.generator)  # as of the last round
        self._past: list[int] = []
        self._now: list[int] = []
        self._rounds = 0  # of this task
        self.penalty: ProximalTerm | None = None

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Takes the steps of critic and generator on the mini-batch and on replayed images."""
        self._now = list(current)
        labels = to_device(batch.y, batch.x.device)
        losses, before = [], self._tested(batch.x)
        x, y = batchable(batch.x), batchable(labels)
        self.model.train()
        self.model.critic.dropout.seed(self._draws.seed())
        for _ in range(self.steps):
            loss = self._critic_loss(x, y) + self._penalty()
            self._adversaries.judge(loss)
            classes = self._draws.labels(len(x), self._so_far)
            noise = self._draws.noise(len(x))
            losses += [loss.detach(), self._adversaries.deceive(noise, classes, self._penalty())]
        return measured(before, labels, torch.stack(losses), self.model.parameters())

    def _penalty(self) -> Tensor | float:
        return self.penalty() if self.penalty is not None else 0.0

    @property
    def _so_far(self) -> list[int]:
        return sorted({*self._past, *self._now})

    @torch.no_grad()
    def _tested(self, x: Tensor) -> Tensor:
        """The logits of the mini-batch before it is learned; dropout would blur them."""
        self.model.eval()
        logits: Tensor = self.model(x)
        return logits

    def _critic_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """New images and, in equal parts, replayed ones are real; as many are made."""
        real, real_y, n = x, y, len(x)
        if self._past:
            old_y = self._draws.labels(n, self._past)
            real, real_y = torch.cat([x, self._made(self._last, old_y)]), torch.cat([y, old_y])
        made_y = self._draws.labels(len(real), self._so_far)
        made = self._made(self.model.generator, made_y)
        loss, logits, made_logits = critic_loss(self.model, real, real_y, made, made_y)
        if self.consistency and self._rounds:
            wrong = self._inconsistency(logits[:n], y, made_logits[:n], made_y[:n])
            loss = loss + self.consistency * wrong
        return loss

    def _inconsistency(self, logits: Tensor, y: Tensor, made: Tensor, made_y: Tensor) -> Tensor:
        """What the critic makes of the server's images, and of real and own ones, shall agree.

        From the logits of real images of classes y, and of own ones of classes `made_y`.
        """
        classes = torch.cat([y, made_y])
        as_real, as_own = self.model(self._made(self._server, classes)).split(len(y))
        return (
            divergence(as_real, logits) + divergence(as_own, made) + F.cross_entropy(as_own, made_y)
        )

    @torch.no_grad()
    def _made(self, generator: ClassGenerator, y: Tensor) -> Tensor:
        return self.model.make(self._draws.noise(len(y)), y, generator)

    def grow(self, classes: int, seed: int) -> None:
        """An ACGAN knows its classes from the start."""
        raise OfclError("fedcil cannot learn classes that nobody announced; use a memory method")

    def before_round(self) -> None:
        """Nothing is to be done before a round."""

    def after_round(self, global_model: Tensors) -> None:
        """Keeps the generator that the server has sent."""
        _load_generator(self._server, global_model, "generator.")
        self._rounds += 1
        if self.penalty is not None:
            self.penalty.after_round(global_model)

    def end_task(self) -> None:
        """Keeps the generator for replay."""
        self._ending.load_state_dict(self.model.generator.state_dict())

    def sends(self) -> Tensors:
        """The generator of the last task, and which classes are past and which current."""
        past, now = (torch.tensor(v, dtype=torch.long) for v in (self._past, self._now))
        extras = {"past": past, "now": now}
        if self._past:
            extras |= {f"last.{name}": v.clone() for name, v in self._last.state_dict().items()}
        return extras

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """What was current is past now; the optimisers start anew."""
        self._last.load_state_dict(self._ending.state_dict())
        self._past, self._now = self._so_far, []
        self._rounds = 0
        self._adversaries.renew()

    def state(self) -> State:
        """Everything but the model, for a checkpoint."""
        return {
            "adversaries": self._adversaries.state(),
            "draws": self._draws.generator.get_state(),
            "last": self._last.state_dict(),
            "ending": self._ending.state_dict(),
            "server": self._server.state_dict(),
            "past": self._past,
            "now": self._now,
            "rounds": self._rounds,
            "anchor": self.penalty.state() if self.penalty is not None else [],
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        self._adversaries.load_state(state["adversaries"])
        self._draws.generator.set_state(state["draws"])
        self._last.load_state_dict(state["last"])
        self._ending.load_state_dict(state["ending"])
        self._server.load_state_dict(state["server"])
        self._past, self._now = list(state["past"]), list(state["now"])
        self._rounds = int(state["rounds"])
        if self.penalty is not None:
            self.penalty.load_state(state["anchor"])


def _load_generator(generator: ClassGenerator, tensors: Tensors, prefix: str) -> None:
    """Puts the tensors of a name that begins so into a generator; counters do not travel."""
    weights = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
    generator.load_state_dict(weights, strict=False)


def _frozen(generator: ClassGenerator) -> ClassGenerator:
    return copy.deepcopy(generator).eval().requires_grad_(False)


def client(parts: GenerativeParts) -> FedCIL:
    """The method at a client."""
    assert isinstance(parts.model, ACGAN)
    return FedCIL(
        model=parts.model,
        classes=parts.classes,
        generator=parts.generator,
        steps=parts.steps,
        lr=parts.gan_lr,
        consistency=parts.consistency,
    )


def refuses(shape: tuple[int, ...]) -> str | None:
    """Says what is wrong with images of this shape.

    >>> refuses((1, 28, 28)), refuses((3, 64, 64))
    (None, 'square images of at most 32 × 32')
    """
    _, height, width = shape
    return None if height == width <= ACGAN_SIDE else "square images of at most 32 × 32"
