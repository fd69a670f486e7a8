"""FedCIL (Qi et al. 2023) at a client, online: it trains an ACGAN whose critic is the classifier.

For every mini-batch, critic and generator take steps in turn (`critic_loss`, `generator_loss`).
From the second task on, half of the critic's real images are of past classes: they are made by the
generator as it was at the end of the last task. After the first round of a task, the critic's loss
has three more terms, with s(c) an image of class c by the server's generator, g(c) one by the
client's, x a new image of class y, and p(·) the critic's prediction:

    KL(p(s(y)) ‖ p(x))  +  KL(p(s(c)) ‖ p(g(c)))  +  CE(s(c), c)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.compute.batching import batchable
from ofcl.compute.devices import to_device
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.memory.memory import Memory
from ofcl.methods.generative.fedcil_losses import critic_loss, divergence
from ofcl.methods.generative.fedcil_networks import (
    Adversaries,
    GeneratorInputs,
    frozen_copy,
    load_generator,
)
from ofcl.methods.learner import measured
from ofcl.methods.parts import GenerativeParts
from ofcl.methods.proximal import ProximalTerm
from ofcl.models.generators import ACGAN, ClassGenerator
from ofcl.state import State, Tensors


class FedCIL:
    """FedCIL's learner of a client.

    Args:
        model: The client's ACGAN.
        classes: How many classes there are.
        generator: Where noise and classes are drawn from.
        steps: Steps of critic and generator for each mini-batch.
        lr: Learning rate of critic and generator.
        consistency: The weight of the three terms of consistency with the server.
    """

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
        self._inputs = GeneratorInputs(generator, classes, next(model.parameters()).device)
        self._adversaries = Adversaries(model, lr)
        self._last = frozen_copy(model.generator)  # as of the end of the last task
        self._ending = frozen_copy(
            model.generator
        )  # as of the end of this one, before its last round
        self._server = frozen_copy(model.generator)  # as of the last round
        self._past: list[int] = []  # classes of past tasks
        self._current: list[int] = []  # classes of this task
        self._rounds = 0  # of this task
        self.penalty: ProximalTerm | None = None

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Takes the steps of critic and generator on the mini-batch and on replayed images.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.

        Returns:
            The measurements of the mini-batch (`measured`).
        """
        self._current = list(current)
        labels = to_device(batch.y, batch.x.device)
        losses, before = [], self._test(batch.x)
        x, y = batchable(batch.x), batchable(labels)
        self.model.train()
        self.model.critic.dropout.seed(self._inputs.seed())
        for _ in range(self.steps):
            loss = self._critic_loss(x, y) + self._penalty()
            self._adversaries.judge(loss)
            classes = self._inputs.labels(len(x), self._seen)
            noise = self._inputs.noise(len(x))
            losses += [loss.detach(), self._adversaries.deceive(noise, classes, self._penalty())]
        return measured(before, labels, torch.stack(losses), self.model.parameters())

    def _penalty(self) -> Tensor | float:
        """Computes FedProx's term of the loss, or 0 without FedProx."""
        return self.penalty() if self.penalty is not None else 0.0

    @property
    def _seen(self) -> list[int]:
        """The classes of past tasks and of the current one."""
        return sorted({*self._past, *self._current})

    @torch.no_grad()
    def _test(self, x: Tensor) -> Tensor:
        """Computes the logits of a mini-batch before it is learned, in evaluation mode.

        Args:
            x: The images of the mini-batch.
        """
        self.model.eval()
        logits: Tensor = self.model(x)
        return logits

    def _critic_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the critic's loss on new images, replayed ones and made ones.

        Replayed images of past classes, made by the generator of the last task, count as real.
        After the first round of a task, the terms of consistency with the server are added.

        Args:
            x: The new images.
            y: The classes of the new images.
        """
        real, real_y, n = x, y, len(x)
        if self._past:
            old_y = self._inputs.labels(n, self._past)
            real, real_y = torch.cat([x, self._made(self._last, old_y)]), torch.cat([y, old_y])
        made_y = self._inputs.labels(len(real), self._seen)
        made = self._made(self.model.generator, made_y)
        loss, logits, made_logits = critic_loss(self.model, real, real_y, made, made_y)
        if self.consistency and self._rounds:
            disagreement = self._inconsistency(logits[:n], y, made_logits[:n], made_y[:n])
            loss = loss + self.consistency * disagreement
        return loss

    def _inconsistency(self, logits: Tensor, y: Tensor, made: Tensor, made_y: Tensor) -> Tensor:
        """Computes the three terms of consistency with the server (at the top of this file).

        Args:
            logits: The critic's logits of real images.
            y: The classes of the real images.
            made: The critic's logits of as many images by the client's generator.
            made_y: The classes of the images by the client's generator.
        """
        classes = torch.cat([y, made_y])
        of_server = self.model(self._made(self._server, classes))
        like_real, like_made = of_server.split(len(y))
        return (
            divergence(like_real, logits)
            + divergence(like_made, made)
            + F.cross_entropy(like_made, made_y)
        )

    @torch.no_grad()
    def _made(self, generator: ClassGenerator, y: Tensor) -> Tensor:
        """Makes an image of each given class, without gradients.

        Args:
            generator: The generator that makes them.
            y: The class (n,) of each image.
        """
        return self.model.make(self._inputs.noise(len(y)), y, generator)

    def grow(self, classes: int, seed: int) -> None:
        """Raises an error: an ACGAN has all classes from the start."""
        raise OfclError("fedcil cannot learn classes that nobody announced; use a memory method")

    def before_round(self) -> None:
        """Does nothing: FedCIL needs no model from before a round."""

    def after_round(self, global_model: Tensors) -> None:
        """Copies the server's generator; with FedProx, moves the anchor to the new global model.

        Args:
            global_model: The global model's tensors by name, with the generator's among them.
        """
        load_generator(self._server, global_model, "generator.")
        self._rounds += 1
        if self.penalty is not None:
            self.penalty.after_round(global_model)

    def end_task(self) -> None:
        """Copies the generator as it is now, for replay in the next task."""
        self._ending.load_state_dict(self.model.generator.state_dict())

    def before_test(self) -> None:
        """Does nothing: FedCIL learns from mini-batches alone."""

    def sends(self) -> Tensors:
        """Returns the tensors that an update carries besides the model.

        These are the past classes (`past`), the current ones (`now`) and, if there are past
        classes, the weights of the generator as it was at the end of the last task (`last.…`).
        """
        past, current = (torch.tensor(v, dtype=torch.long) for v in (self._past, self._current))
        extras = {"past": past, "now": current}
        if self._past:
            extras |= {f"last.{name}": v.clone() for name, v in self._last.state_dict().items()}
        return extras

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Begins the next task.

        The generator that `end_task` copied makes replayed images from now on, current classes
        become past ones, and the optimisers start anew.

        Args:
            global_model: Not used; `after_round` has taken it.
            handed: Empty, as FedCIL's server hands out no tensors.
        """
        self._last.load_state_dict(self._ending.state_dict())
        self._past, self._current = self._seen, []
        self._rounds = 0
        self._adversaries.renew()

    def state(self) -> State:
        """Returns the learner's state without the model, for a checkpoint."""
        return {
            "adversaries": self._adversaries.state(),
            "draws": self._inputs.random.get_state(),
            "last": self._last.state_dict(),
            "ending": self._ending.state_dict(),
            "server": self._server.state_dict(),
            "past": self._past,
            "now": self._current,
            "rounds": self._rounds,
            "anchor": self.penalty.state() if self.penalty is not None else [],
        }

    def load_state(self, state: State) -> None:
        """Restores the learner from what `state` returned."""
        self._adversaries.load_state(state["adversaries"])
        self._inputs.random.set_state(state["draws"])
        self._last.load_state_dict(state["last"])
        self._ending.load_state_dict(state["ending"])
        self._server.load_state_dict(state["server"])
        self._past, self._current = list(state["past"]), list(state["now"])
        self._rounds = int(state["rounds"])
        if self.penalty is not None:
            self.penalty.load_state(state["anchor"])


def client(parts: GenerativeParts) -> FedCIL:
    """Builds FedCIL's learner of a client.

    Args:
        parts: The parts that generative methods are built from.
    """
    assert isinstance(parts.model, ACGAN)
    return FedCIL(
        model=parts.model,
        classes=parts.classes,
        generator=parts.generator,
        steps=parts.steps,
        lr=parts.gan_lr,
        consistency=parts.consistency,
    )
