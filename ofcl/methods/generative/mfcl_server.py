"""MFCL at the server."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ofcl.methods.generative.mfcl_client import image_generator
from ofcl.methods.generative.mfcl_losses import Labels, generator_loss
from ofcl.methods.parts import GenerativeParts, shown
from ofcl.models.generators import NOISE, ImageGenerator
from ofcl.state import State, Tensors
from ofcl.update import Update


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
