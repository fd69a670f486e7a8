"""FedCIL: optimisers, random inputs and copies of generators, for client and server."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ofcl.methods.generative.fedcil_losses import generator_loss
from ofcl.models.generators import ACGAN, ACGAN_NOISE, ACGAN_SIDE, ClassGenerator
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state


class GeneratorInputs:
    """The random inputs of an image generator: noise and classes.

    Args:
        random: The random generator from which noise and classes are drawn.
        classes: How many classes the image generator knows.
        device: The device to which noise and classes are moved.
    """

    def __init__(self, random: torch.Generator, classes: int, device: torch.device) -> None:
        self.random, self.size, self._device = random, ACGAN_NOISE + classes, device

    def noise(self, n: int) -> Tensor:
        """Draws noise for n images, with 100 numbers and one for each class: (n, 100 + classes).

        Args:
            n: How many images the noise is for.
        """
        return torch.randn(n, self.size, generator=self.random).to(self._device)

    def labels(self, n: int, among: Sequence[int]) -> Tensor:
        """Draws classes (n,), each equally likely.

        Args:
            n: How many to draw.
            among: The classes to draw from.
        """
        chosen = torch.randint(len(among), (n,), generator=self.random)
        return torch.tensor(sorted(among))[chosen].to(self._device)

    def seed(self) -> int:
        """Draws a seed for the critic's dropout, which draws its own numbers on the device."""
        return int(torch.randint(2**62, (1,), generator=self.random))


class Adversaries:
    """The optimisers of an ACGAN's critic and generator, and a step of each.

    Args:
        gan: The ACGAN that the optimisers train.
        lr: Learning rate of both optimisers.
    """

    def __init__(self, gan: ACGAN, lr: float) -> None:
        self.gan, self._lr = gan, lr
        self.renew()

    def renew(self) -> None:
        """Replaces both optimisers by new ones without history."""
        of_generator: list[nn.Parameter] = []
        of_critic: list[nn.Parameter] = []
        for name, parameter in self.gan.named_parameters():
            (of_generator if name.startswith("generator.") else of_critic).append(parameter)
        betas, fused = (0.5, 0.999), of_generator[0].is_cuda
        self.critic = torch.optim.Adam(of_critic, lr=self._lr, betas=betas, fused=fused)
        self.generator = torch.optim.Adam(of_generator, lr=self._lr, betas=betas, fused=fused)

    def judge(self, critic_loss: Tensor) -> None:
        """Takes one gradient step of the critic.

        Args:
            critic_loss: The critic's loss, whose gradient is taken.
        """
        self.critic.zero_grad()
        critic_loss.backward()  # type: ignore[no-untyped-call]
        self.critic.step()

    def deceive(self, noise: Tensor, y: Tensor, penalty: Tensor | float = 0.0) -> Tensor:
        """Takes one gradient step of the generator on new images; returns the loss before the step.

        Args:
            noise: The generator's noise (n, 100 + classes).
            y: The classes (n,) of the images to make.
            penalty: A term that is added to the loss.
        """
        loss = generator_loss(self.gan, self.gan.make(noise, y), y) + penalty
        self.generator.zero_grad()
        loss.backward(inputs=list(self.gan.generator.parameters()))  # type: ignore[no-untyped-call]
        self.generator.step()
        return loss.detach()

    def state(self) -> State:
        """Returns the state of both optimisers, for a checkpoint."""
        return {
            "critic": optimizer_state(self.critic),
            "generator": optimizer_state(self.generator),
        }

    def load_state(self, state: State) -> None:
        """Restores both optimisers from what `state` returned."""
        load_optimizer_state(self.critic, state["critic"])
        load_optimizer_state(self.generator, state["generator"])


def frozen_copy(generator: ClassGenerator) -> ClassGenerator:
    """Copies an image generator, in evaluation mode and without gradients.

    Args:
        generator: The image generator to copy.
    """
    return copy.deepcopy(generator).eval().requires_grad_(False)


def load_generator(generator: ClassGenerator, tensors: Tensors, prefix: str) -> None:
    """Loads an image generator's weights from tensors that a client or the server has sent.

    Args:
        generator: The image generator whose weights are replaced.
        tensors: Tensors by name; BatchNorm's counters may be missing, as they are never sent.
        prefix: The beginning of the names of the generator's tensors.
    """
    weights = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
    generator.load_state_dict(weights, strict=False)


def refuses(shape: tuple[int, ...]) -> str | None:
    """Returns None if an ACGAN can make images of this shape, else which images it can make.

    >>> refuses((1, 28, 28)), refuses((3, 64, 64))
    (None, 'square images of at most 32 × 32')

    Args:
        shape: The shape of an image (C, H, W).
    """
    _, height, width = shape
    return None if height == width <= ACGAN_SIDE else "square images of at most 32 × 32"
