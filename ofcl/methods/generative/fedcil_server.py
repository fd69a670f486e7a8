"""FedCIL (Qi et al. 2023) at the server: it trains the averaged ACGAN on made images after a round.

Each client's generator makes images of the client's current classes; its generator as of the end of
the last task makes images of its past classes. On equal parts of both, the averaged critic and
generator take steps in turn, as a client's do on real images (`critic_loss`, `generator_loss`). The
paper calls this consolidation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ofcl.methods.generative.fedcil_losses import critic_loss
from ofcl.methods.generative.fedcil_networks import (
    Adversaries,
    GeneratorInputs,
    frozen_copy,
    load_generator,
)
from ofcl.methods.parts import GenerativeParts, shown
from ofcl.models.generators import ACGAN
from ofcl.state import State, Tensors
from ofcl.update import Update

SERVER_BATCH = 32  # images that each client's generator makes, and that a step draws of them


class Pool:
    """Images from which batches are drawn, with every class equally likely.

    Args:
        images: The images (n, …).
        labels: The classes (n,) of the images.
    """

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels
        on_cpu = labels.cpu()
        self._weights = 1.0 / torch.bincount(on_cpu)[on_cpu]

    def draw(self, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws 32 images with repetition; returns them and their classes (32,).

        Args:
            random: The random generator to draw from.
        """
        rows = torch.multinomial(self._weights, SERVER_BATCH, replacement=True, generator=random)
        rows = rows.to(self.images.device)
        return self.images[rows], self.labels[rows]


class FedCILServer:
    """FedCIL's part at the server: trains the averaged ACGAN on images of the clients' generators.

    Args:
        model: An ACGAN like the clients', into which the averaged weights are loaded.
        classes: How many classes there are.
        generator: The random generator of noise and classes.
        steps: Steps of critic and generator after each round.
        lr: Learning rate of critic and generator.
        mean: The mean of each channel, with which images are normalised.
        std: The standard deviation of each channel, with which images are normalised.
    """

    every_round = True

    def __init__(
        self,
        *,
        model: ACGAN,
        classes: int,
        generator: torch.Generator,
        steps: int = 100,
        lr: float = 2e-4,
        mean: Sequence[float] = (0.5,),
        std: Sequence[float] = (0.5,),
    ) -> None:
        self._model, self._steps = model, steps
        self._device = next(model.parameters()).device
        self._inputs = GeneratorInputs(generator, classes, self._device)
        self._adversaries = Adversaries(model, lr)
        self._maker = frozen_copy(model.generator)
        self._seen: list[int] = []
        self._mean, self._std = mean, std

    def after_round(self, model: Tensors, updates: Sequence[Update]) -> Tensors:
        """Trains the averaged ACGAN on images that the clients' generators make.

        Args:
            model: The averaged weights.
            updates: The updates of the round's clients, with their generators and classes.

        Returns:
            The trained weights; empty if no client has sent a class.
        """
        self._model.load_state_dict(model, strict=False)
        current = self._pool(updates, "generator.", "now")
        past = self._pool(updates, "last.", "past")
        pools = [pool for pool in (current, past) if pool is not None]
        if not pools:
            return {}
        seen = {c for pool in pools for c in pool.labels.tolist()}
        self._seen = sorted({*self._seen, *seen})
        self._model.train()
        self._model.critic.dropout.seed(self._inputs.seed())
        with torch.enable_grad():
            for _ in range(self._steps):
                drawn = [pool.draw(self._inputs.random) for pool in pools]
                x, y = (torch.cat(parts) for parts in zip(*drawn, strict=True))
                self._adversaries.judge(self._critic_loss(x, y))
                classes = self._inputs.labels(SERVER_BATCH, self._seen)
                self._adversaries.deceive(self._inputs.noise(SERVER_BATCH), classes)
        self._model.eval()
        state = self._model.state_dict()
        return {name: state[name].detach().clone() for name in model}

    def _critic_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the critic's loss; as many images by the averaged generator are its made ones.

        Args:
            x: Images by the clients' generators, which count as real.
            y: The classes of these images.
        """
        made_y = self._inputs.labels(len(x), self._seen)
        with torch.no_grad():
            made = self._model.make(self._inputs.noise(len(x)), made_y)
        return critic_loss(self._model, x, y, made, made_y)[0]

    @torch.no_grad()
    def _pool(self, updates: Sequence[Update], prefix: str, which: str) -> Pool | None:
        """Collects images that the clients' generators make; None if no client has such classes.

        Args:
            updates: The updates of the round's clients.
            prefix: The beginning of the names of the tensors of the generator to use: `generator.`
                for the current one, `last.` for that of the last task.
            which: The name of the list of classes to make: `now` or `past`.
        """
        images, labels = [], []
        for update in updates:
            classes = update.extras[which].tolist()
            if not classes:
                continue
            load_generator(self._maker, {**update.state, **update.extras}, prefix)
            y = self._inputs.labels(SERVER_BATCH, classes)
            images.append(self._model.make(self._inputs.noise(len(y)), y, self._maker))
            labels.append(y)
        return Pool(torch.cat(images), torch.cat(labels)) if images else None

    def end_task(self, model: Tensors) -> Tensors:
        """Returns no tensors: the clients need nothing but the model for the next task."""
        return {}

    @torch.no_grad()
    def pictures(self, each: int) -> dict[int, Tensor]:
        """Makes images of each class seen so far, for people to look at.

        Args:
            each: How many images to make of each class.

        Returns:
            By class, images (each, C, H, W) with values from 0 to 1.
        """
        draw = torch.Generator().manual_seed(0)  # not the run's, whose draws must not move
        self._model.eval()
        images = {}
        for c in self._seen:
            y = torch.full((each,), c, device=self._device)
            noise = torch.randn(each, self._inputs.size, generator=draw).to(self._device)
            images[c] = shown(self._model.make(noise, y), self._mean, self._std)
        return images

    def state(self) -> State:
        """Returns the model, the optimisers, the classes and the random state, for a checkpoint."""
        return {
            "model": self._model.state_dict(),
            "adversaries": self._adversaries.state(),
            "draws": self._inputs.random.get_state(),
            "seen": self._seen,
        }

    def load_state(self, state: State) -> None:
        """Restores the server part from what `state` returned."""
        self._model.load_state_dict(state["model"])
        self._adversaries.load_state(state["adversaries"])
        self._inputs.random.set_state(state["draws"])
        self._seen = list(state["seen"])


def server(parts: GenerativeParts) -> FedCILServer:
    """Builds FedCIL's part of the server.

    Args:
        parts: The parts that generative methods are built from.
    """
    assert isinstance(parts.model, ACGAN)
    return FedCILServer(
        model=parts.model,
        classes=parts.classes,
        generator=parts.generator,
        steps=parts.consolidation,
        lr=parts.gan_lr,
        mean=parts.mean,
        std=parts.std,
    )
