"""The learner that the memory-based methods share: replay ▸ gradient steps ▸ remember."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.batching import batchable
from ofcl.data.stream import Batch
from ofcl.losses import Loss
from ofcl.memory import Memory
from ofcl.methods.learner import Learning
from ofcl.models.head import grow_head, grow_optimizer
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state


@dataclass
class Replay:
    """Learns a mini-batch together with samples drawn from the memory (Algorithm 1, client)."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Loss
    memory: Memory | None
    generator: torch.Generator
    steps: int = 3
    replay: Literal["past", "all"] = "past"
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    penalty: Callable[[], Tensor] | None = None
    test_first: bool = False  # in evaluation mode, with a forward of its own

    def learn(self, batch: Batch, current: Tensor) -> Learning:
        """Takes the gradient steps on batch and replay, then offers the batch to the memory.

        `current` are the classes of the batch's task that have been seen.
        """
        first_logits, losses = self._tested(batch.x), []
        for step in range(self.steps):
            # Later steps see the new images changed, and other samples of the memory.
            augment = self.augment if step > 0 else None
            new_x = augment(batch.x, self.generator) if augment else batch.x
            x, y = self._with_replay(new_x, batch)
            self.model.train()
            new = len(batch.x) if len(x) > 1 else 2  # a lone sample is doubled, and both are new
            x, y = batchable(x), batchable(y)
            logits = self.model(x)
            loss = self.loss(logits, y, new, current)
            losses.append(loss.detach())
            if step == 0 and not self.test_first:
                first_logits = logits[: len(batch.x)].detach()
            if self.penalty is not None:
                loss = loss + self.penalty()
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        if self.memory is not None:
            self.memory.update(batch.x, batch.y, batch.task, current.tolist())
        before = F.cross_entropy(first_logits, batch.y).item()
        correct = int((first_logits.argmax(1) == batch.y).sum())
        # The loss is from before a step; what the last one did is seen in the parameters.
        size = nn.utils.get_total_norm(self.model.parameters())
        finite = torch.stack([*losses, size]).isfinite().all()
        return Learning(before, correct, bool(finite))

    def grow(self, classes: int, seed: int) -> None:
        """Gives the model, and what scores with a copy of it, outputs for new classes."""
        grow_optimizer(self.optimizer, grow_head(self.model, classes, seed))
        if self.memory is not None:
            self.memory.grow(classes, seed)

    def before_round(self) -> None:
        """The client is about to take the global model."""
        if self.memory is not None:
            self.memory.before_round()

    def after_round(self, global_model: Tensors) -> None:
        """The client has taken the global model."""
        if self.memory is not None:
            self.memory.after_round()

    def end_task(self) -> None:
        """The memory knows by itself what is past."""

    def sends(self) -> Tensors:
        """Nothing but the model leaves a client."""
        return {}

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Nothing but the model comes from the server."""

    def state(self) -> State:
        """Everything but the model, for a checkpoint."""
        return {
            "optimizer": optimizer_state(self.optimizer),
            "memory": None if self.memory is None else self.memory.state(),
            "generator": self.generator.get_state(),
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        load_optimizer_state(self.optimizer, state["optimizer"])
        if self.memory is not None:
            self.memory.load_state(state["memory"])
        self.generator.set_state(state["generator"])

    @torch.no_grad()
    def _tested(self, x: Tensor) -> Tensor:
        if not self.test_first:
            return torch.empty(0)
        self.model.eval()
        logits: Tensor = self.model(x)
        return logits

    def _with_replay(self, new_x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.memory is None or not len(self.memory):
            return new_x, batch.y
        exclude = batch.task if self.replay == "past" else None  # None: nothing is excluded
        old_x, old_y = self.memory.draw(len(batch.x), exclude)
        return torch.cat([new_x, old_x]), torch.cat([batch.y, old_y])
