"""TARGET (Zhang et al. 2023) at the server: it makes synthetic images when a task has ended.

The images are made from the global model alone (`target_synthesis`), by a generator that starts
anew with every task. The clients get the images, as bytes from 0 to 255.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ofcl.methods.generative.mfcl_generator import build_image_generator
from ofcl.methods.generative.target_synthesis import STEPS, Synthesis
from ofcl.methods.generative.taught_learner import add_told
from ofcl.methods.parts import GenerativeParts, shown
from ofcl.models.generators import ImageGenerator
from ofcl.pretrained.referred import load_saved, saved_state
from ofcl.state import State, Tensors
from ofcl.update import Update


class TARGETServer:
    """TARGET's part at the server.

    Args:
        model: A model like the clients', with its initial weights: the student starts from them.
        image_generator: The image generator with its initial weights.
        generator: The random generator of noise.
        steps: Gradient steps of the image generator after a task, ten for each lot of images.
        lot: Images in each lot.
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
        lot: int = 128,
        mean: Sequence[float] = (0.5,),
        std: Sequence[float] = (0.5,),
    ) -> None:
        self._student, self._images = copy.deepcopy(model), image_generator
        self._teacher = model.eval().requires_grad_(False)
        self._generator, self._steps, self._lot = generator, steps, lot
        self._mean, self._std = mean, std
        self._seen: list[int] = []
        self._made = torch.empty(0, dtype=torch.uint8)  # the images of the last task

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
        """Makes synthetic images with the global model as the teacher.

        Args:
            model: The global model at the end of the task.

        Returns:
            The images, `images`, (n, C, H, W) as bytes, and the classes seen so far, `old`.
        """
        self._teacher.load_state_dict(model, strict=False)
        if self._seen:
            self._made = self._synthesise()
        return {"images": self._made, "old": torch.tensor(self._seen, dtype=torch.long)}

    def _synthesise(self) -> Tensor:
        """Makes images of the classes seen so far (n, C, H, W), as bytes."""
        synthesis = Synthesis(
            self._teacher,
            copy.deepcopy(self._student),
            copy.deepcopy(self._images),
            torch.tensor(self._seen, device=next(self._teacher.parameters()).device),
            self._generator,
            self._lot,
            min(self._steps, STEPS),
        )
        lots = max(self._steps // STEPS, 1)
        pixels = shown(synthesis.make(lots), self._mean, self._std)
        return (255 * pixels).round().to(torch.uint8)

    @torch.no_grad()
    def pictures(self, each: int) -> dict[int, Tensor]:
        """Shows synthetic images, sorted by the class that the teacher predicts.

        Args:
            each: How many images of each class are wanted.

        Returns:
            By class, images (n, C, H, W) with values from 0 to 1; n is at most `each`. Empty before
            any image has been made.
        """
        if not len(self._made):
            return {}
        device = next(self._teacher.parameters()).device
        seen = torch.tensor(self._seen, device=device)
        images = normalised(self._made, self._mean, self._std).to(device)
        predicted = torch.cat(
            [self._teacher(some)[:, seen].argmax(1) for some in torch.split(images, 256)]
        )
        classes = seen[predicted].cpu()
        return {c: self._made[classes == c][:each] / 255 for c in self._seen}

    def state(self) -> State:
        """Returns the classes, the images, the teacher and the draws, for a checkpoint."""
        return {
            "seen": self._seen,
            "made": self._made,
            "teacher": saved_state(self._teacher),
            "generator": self._generator.get_state(),
        }

    def load_state(self, state: State) -> None:
        """Restores the server part from what `state` returned."""
        self._seen, self._made = list(state["seen"]), state["made"]
        load_saved(self._teacher, state["teacher"])
        self._generator.set_state(state["generator"])


def normalised(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Brings images from bytes to normalised values, as a model takes them.

    Args:
        pixels: The images (n, C, H, W), with values from 0 to 255.
        mean: The mean of each channel.
        std: The standard deviation of each channel.
    """
    means, deviations = (torch.tensor(v, device=pixels.device).view(-1, 1, 1) for v in (mean, std))
    return (pixels / 255 - means) / deviations


def server(parts: GenerativeParts) -> TARGETServer:
    """Builds TARGET's part of the server.

    Args:
        parts: The parts that generative methods are built from.
    """
    return TARGETServer(
        model=parts.model,
        image_generator=build_image_generator(parts),
        generator=parts.generator,
        steps=parts.generator_steps,
        mean=parts.mean,
        std=parts.std,
    )
