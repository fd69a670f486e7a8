"""GDumb (Prabhu et al. 2020): greedy sampler and dumb learner.

The stream fills a class-balanced memory, and nothing else is learned from it. When a model is to be
tested, or sent for a closing round, it starts again from the run's initial weights, and learns the
samples of the memory for some epochs, with a learning rate that falls along half a cosine. So the
order of the stream does not matter: the method shows what a memory alone is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ofcl.compute.batching import batchable
from ofcl.compute.cuda_graphs import Captured
from ofcl.compute.foreach import copy_all
from ofcl.compute.optimizers import descend
from ofcl.data.stream import Batch
from ofcl.memory.memory import Memory
from ofcl.methods.learner import measured
from ofcl.methods.losses import Loss
from ofcl.methods.parts import LearnerParts
from ofcl.methods.proximal import ProximalTerm
from ofcl.models.head import grow_head, grown, outputs
from ofcl.pretrained.referred import saved_state
from ofcl.state import State, Tensors
from ofcl.uncertainty.change import Change

BATCH = 16  # samples of a gradient step, as the authors have it
SLOWEST = 0.01  # of the learning rate, at the end


def rate(step: int, steps: int) -> float:
    """Computes the share of the learning rate that a step has: half a cosine, from 1 to 0.01.

    >>> [round(rate(step, 3), 3) for step in range(3)]
    [1.0, 0.505, 0.01]

    Args:
        step: The number of the step, from 0.
        steps: How many steps there are.
    """
    return SLOWEST + (1 - SLOWEST) * (1 + math.cos(math.pi * step / max(steps - 1, 1))) / 2


class GDumb:
    """GDumb's learner of a client (a `Learner`).

    Args:
        model: The client's model, with its initial weights.
        make_optimizer: Makes an optimiser of the model, for each fit a new one.
        memory: The memory, class-balanced.
        loss: The run's loss.
        generator: The random generator of mini-batches and augmentations.
        epochs: Passes over the memory.
        augment: Changes samples at random; None: they stay as they are.
        capture: Whether a GPU may replay gradient steps from a graph (`Replay.capture`).
    """

    def __init__(
        self,
        model: nn.Module,
        make_optimizer: Callable[[], torch.optim.Optimizer],
        memory: Memory,
        loss: Loss,
        generator: torch.Generator,
        epochs: int,
        augment: Change | None,
        *,
        capture: bool = True,
    ) -> None:
        self.model, self._memory = model, memory
        self.memory: Memory | None = memory
        self.penalty: ProximalTerm | None = None
        self._make_optimizer, self._loss, self._epochs = make_optimizer, loss, epochs
        self._generator, self._augment, self._capture = generator, augment, capture
        self._initial = {name: value.clone() for name, value in saved_state(model).items()}
        self._device = next(model.parameters()).device
        self._rate = torch.ones((), device=self._device)
        self._begin()

    def _begin(self) -> None:
        """Makes a new optimiser; steps that were captured with the old one are forgotten."""
        self._optimizer = self._make_optimizer()
        self._captured = Captured(self._step, self._device, capture=self._capture)

    @property
    def replays(self) -> bool:
        """Whether a GPU replays the gradient steps from a graph."""
        return self._captured.replays

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Offers a mini-batch to the memory, and tests it; the model does not change.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.

        Returns:
            The measurement (3,) that `measured` makes.
        """
        self._memory.update(batch.x, batch.y, batch.task, current)
        self.model.eval()
        y = batch.y.to(self._device)
        with torch.no_grad():
            logits: Tensor = self.model(batch.x)
        return measured(logits, y, logits.new_zeros(1), self.model.parameters())

    def before_test(self) -> None:
        """Learns the memory's samples, from the initial weights."""
        own = saved_state(self.model)
        copy_all(list(own.values()), [self._initial[name] for name in own])
        self._begin()
        n = len(self._memory)
        batches = math.ceil(n / BATCH)
        self.model.train()
        for epoch in range(self._epochs if n else 0):
            (order,) = self._memory.draw(n)
            for i, places in enumerate(order.split(BATCH)):
                self._rate.fill_(rate(epoch * batches + i, self._epochs * batches))
                self._captured(places, self._drawn(len(places)))

    def _drawn(self, n: int) -> Tensor:
        """Draws the random numbers of the augmentation of n samples; empty without one."""
        if self._augment is None:
            return torch.empty(0)
        shape = torch.Size([n, *self._memory.x.shape[1:]])
        return self._augment.draw(shape, self._generator)

    def _step(self, places: Tensor, draws: Tensor) -> Tensor:
        """Takes a gradient step on some samples of the memory; returns the loss.

        Args:
            places: The places of the samples (n,).
            draws: The random numbers of the augmentation; empty without one.
        """
        x, y = self._memory.at(places)
        if self._augment is not None:
            x = self._augment.apply(x, draws)
        x, y = (batchable(values) if len(places) == 1 else values for values in (x, y))
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        every = torch.ones(outputs(self.model), dtype=torch.bool, device=self._device)
        loss = self._loss(self.model(x), y, 0, every)
        before = [p.detach().clone() for p in parameters]
        total = loss if self.penalty is None else loss + self.penalty()
        descend(self._optimizer, total, parameters)
        with torch.no_grad():  # the optimiser's step, as long as the schedule says
            for p, old in zip(parameters, before, strict=True):
                p.copy_(torch.lerp(old, p, self._rate))
        return loss.detach()

    def grow(self, classes: int, seed: int) -> None:
        """Gives the model, and its initial weights, outputs for new classes.

        Args:
            classes: How many outputs there are afterwards.
            seed: The run's seed, from which the weights of new outputs are drawn.
        """
        grow_head(self.model, classes, seed)
        self._initial = grown(self._initial, classes, seed)
        self._memory.grow(classes, seed)
        if self.penalty is not None:
            self.penalty.grow()
        self._begin()

    def before_round(self) -> None:
        """Tells the memory that a round comes."""
        self._memory.before_round()

    def after_round(self, global_model: Tensors) -> None:
        """Tells the memory, and FedProx's term, that the client has taken the global model.

        Args:
            global_model: The global model's tensors by name.
        """
        self._memory.after_round()
        if self.penalty is not None:
            self.penalty.after_round(global_model)

    def end_task(self) -> None:
        """Does nothing: the memory knows by itself which samples are of past tasks."""

    def sends(self) -> Tensors:
        """Returns no tensors: only the model leaves a client."""
        return {}

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Does nothing: the server hands out no tensors but the model."""

    def state(self) -> State:
        """Returns the learner's state without the model, for a checkpoint."""
        return {
            "memory": self._memory.state(),
            "generator": self._generator.get_state(),
            "anchor": self.penalty.state() if self.penalty is not None else [],
        }

    def load_state(self, state: State) -> None:
        """Restores the learner from what `state` returned."""
        self._memory.load_state(state["memory"])
        self._generator.set_state(state["generator"])
        if self.penalty is not None:
            self.penalty.load_state(state["anchor"])


def learner(parts: LearnerParts) -> GDumb:
    """Makes GDumb's learner of a client.

    Args:
        parts: The parts that learners are made from.
    """
    assert parts.memory is not None
    return GDumb(
        parts.model,
        parts.make_optimizer,
        parts.memory,
        parts.loss,
        parts.generator,
        parts.fitting_epochs,
        parts.augment,
        capture=parts.capture,
    )
