"""MFCL (Babakniya et al. 2023) at the server: it trains a generator when a task has ended.

The generator learns to make images that the frozen global model, its teacher, takes for images of
the classes seen so far (`generator_loss`). It keeps its weights from task to task; its optimiser,
Adam, starts anew. The clients get the generator for the next task.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ofcl.methods.generative.mfcl_generator import build_image_generator
from ofcl.methods.generative.mfcl_losses import Labels, generator_loss
from ofcl.methods.generative.taught_learner import add_told
from ofcl.methods.parts import GenerativeParts, shown
from ofcl.models.generators import NOISE, ImageGenerator
from ofcl.pretrained.referred import load_saved, saved_state
from ofcl.state import State, Tensors
from ofcl.update import Update


class MFCLServer:
    """MFCL's part at the server: trains the image generator when a task has ended for every client.

    Args:
        model: A model like the clients', into which the teacher's weights are loaded.
        image_generator: The image generator, with the same weights at all clients and the server.
        generator: The random generator of noise.
        steps: Gradient steps of the image generator after a task.
        batch: Images in each step.
        labels: How the class of a made image is chosen (`Labels`).
        mean: The mean of each channel, with which images are normalised.
        std: The standard deviation of each channel, with which images are normalised.
    """

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
        """Notes the clients' classes, and leaves the averaged model as it is.

        Args:
            model: The averaged weights.
            updates: The updates of the round's clients, with their classes.

        Returns:
            No tensors: the averaged model is not changed.
        """
        self._seen = add_told(self._seen, updates)
        return {}

    def end_task(self, model: Tensors) -> Tensors:
        """Trains the generator with the global model as its teacher.

        Args:
            model: The global model at the end of the task.

        Returns:
            The generator's weights and, under the name `old`, the classes seen so far.
        """
        self._model.load_state_dict(model, strict=False)
        if self._seen:
            self.train()
        handed = {f"generator.{name}": v for name, v in self._images.state_dict().items()}
        return handed | {"old": torch.tensor(self._seen, dtype=torch.long)}

    def train(self) -> list[float]:
        """Trains the generator on the classes seen so far; returns the loss of every step."""
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
        """Makes images for people to look at, sorted by the class that the teacher predicts.

        Args:
            each: How many images of each class are wanted.

        Returns:
            By class, images (n, C, H, W) with values from 0 to 1; n is at most `each`. Empty before
            any class has been seen.
        """
        if not self._seen:
            return {}
        device = next(self._images.parameters()).device
        seen = torch.tensor(self._seen, device=device)
        draw = torch.Generator().manual_seed(0)  # not the run's, whose draws must not move
        by_class: dict[int, list[Tensor]] = {c: [] for c in self._seen}
        for _ in range(each):  # not until all are full: the teacher may see a class in no image
            made = self._images.eval()(torch.randn(256, NOISE, generator=draw).to(device))
            taken_for = seen[self._model(made)[:, seen].argmax(1)].tolist()
            for image, c in zip(shown(made, self._mean, self._std), taken_for, strict=True):
                if len(by_class[c]) < each:
                    by_class[c].append(image)
        return {
            c: torch.stack(images) if images else made[:0].cpu() for c, images in by_class.items()
        }

    def state(self) -> State:
        """Returns the generator, the model, the classes and the random state, for a checkpoint."""
        return {
            "images": self._images.state_dict(),
            "model": saved_state(self._model),
            "seen": self._seen,
            "generator": self._generator.get_state(),
        }

    def load_state(self, state: State) -> None:
        """Restores the server part from what `state` returned."""
        self._images.load_state_dict(state["images"])
        load_saved(self._model, state["model"])
        self._seen = list(state["seen"])
        self._generator.set_state(state["generator"])


def server(parts: GenerativeParts) -> MFCLServer:
    """Builds MFCL's part of the server.

    Args:
        parts: The parts that generative methods are built from.
    """
    return MFCLServer(
        model=parts.model,
        image_generator=build_image_generator(parts),
        generator=parts.generator,
        steps=parts.generator_steps,
        labels=parts.generator_labels,
        mean=parts.mean,
        std=parts.std,
    )
