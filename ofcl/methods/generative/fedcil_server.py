"""FedCIL at the server."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ofcl.methods.generative.fedcil_client import (
    SERVER_BATCH,
    Adversaries,
    Draws,
    Pool,
    _frozen,
    _load_generator,
)
from ofcl.methods.generative.fedcil_losses import critic_loss
from ofcl.methods.parts import GenerativeParts, shown
from ofcl.models.generators import ACGAN
from ofcl.state import State, Tensors
from ofcl.update import Update


class FedCILServer:
    """FedCIL at the server: consolidates the averaged ACGAN with the clients' generators."""

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
        self._draws = Draws(generator, classes, self._device)
        self._adversaries = Adversaries(model, lr)
        self._maker = _frozen(model.generator)
        self._seen: list[int] = []
        self._mean, self._std = mean, std

    def after_round(self, model: Tensors, updates: Sequence[Update]) -> Tensors:
        """Trains the averaged ACGAN on images of the clients' generators."""
        self._model.load_state_dict(model, strict=False)
        found = (self._pool(updates, "generator.", "now"), self._pool(updates, "last.", "past"))
        pools = [pool for pool in found if pool is not None]
        if not pools:
            return {}
        seen = {c for pool in pools for c in pool.labels.tolist()}
        self._seen = sorted({*self._seen, *seen})
        self._model.train()
        self._model.critic.dropout.seed(self._draws.seed())
        with torch.enable_grad():
            for _ in range(self._steps):
                drawn = [pool.draw(self._draws) for pool in pools]
                x, y = (torch.cat(parts) for parts in zip(*drawn, strict=True))
                self._adversaries.judge(self._critic_loss(x, y))
                classes = self._draws.labels(SERVER_BATCH, self._seen)
                self._adversaries.deceive(self._draws.noise(SERVER_BATCH), classes)
        self._model.eval()
        state = self._model.state_dict()
        return {name: state[name].detach().clone() for name in model}

    def _critic_loss(self, x: Tensor, y: Tensor) -> Tensor:
        made_y = self._draws.labels(len(x), self._seen)
        with torch.no_grad():
            made = self._model.make(self._draws.noise(len(x)), made_y)
        return critic_loss(self._model, x, y, made, made_y)[0]

    @torch.no_grad()
    def _pool(self, updates: Sequence[Update], prefix: str, which: str) -> Pool | None:
        """Images that the clients' generators make of their current, or past, classes."""
        images, labels = [], []
        for update in updates:
            classes = update.extras[which].tolist()
            if not classes:
                continue
            _load_generator(self._maker, {**update.state, **update.extras}, prefix)
            y = self._draws.labels(SERVER_BATCH, classes)
            images.append(self._model.make(self._draws.noise(len(y)), y, self._maker))
            labels.append(y)
        return Pool(torch.cat(images), torch.cat(labels)) if images else None

    def end_task(self, model: Tensors) -> Tensors:
        """Nothing is handed out besides the model."""
        return {}

    @torch.no_grad()
    def pictures(self, each: int) -> dict[int, Tensor]:
        """Images that the server's generator makes of each class."""
        draw = torch.Generator().manual_seed(0)  # looking does not move the run's draws
        self._model.eval()
        made = {}
        for c in self._seen:
            y = torch.full((each,), c, device=self._device)
            noise = torch.randn(each, self._draws.size, generator=draw).to(self._device)
            made[c] = shown(self._model.make(noise, y), self._mean, self._std)
        return made

    def state(self) -> State:
        """Everything, for a checkpoint."""
        return {
            "model": self._model.state_dict(),
            "adversaries": self._adversaries.state(),
            "draws": self._draws.generator.get_state(),
            "seen": self._seen,
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        self._model.load_state_dict(state["model"])
        self._adversaries.load_state(state["adversaries"])
        self._draws.generator.set_state(state["draws"])
        self._seen = list(state["seen"])


def server(parts: GenerativeParts) -> FedCILServer:
    """The method at the server."""
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
