"""The learner that the memory-based methods share: replay ▸ gradient steps ▸ remember."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ofcl.compute.batching import batchable
from ofcl.compute.cuda_graphs import Captured
from ofcl.compute.optimizers import descend
from ofcl.compute.precision import computing_in
from ofcl.data.stream import Batch
from ofcl.memory.memory import Memory
from ofcl.methods.additions import Adjust, Choose, Follower, Objective, Step
from ofcl.methods.distillation import Distillation
from ofcl.methods.learner import measured
from ofcl.methods.losses import Contrast, Loss, members
from ofcl.methods.proximal import ProximalTerm
from ofcl.models.head import grow_head, grow_optimizer, outputs
from ofcl.state import State, Tensors, load_optimizer_state, optimizer_state
from ofcl.uncertainty.change import Change
from ofcl.uncertainty.draw_ahead import Draws


class Lesson(NamedTuple):
    """A mini-batch and all random draws for its gradient steps, as tensors."""

    x: Tensor
    y: Tensor
    current: Tensor  # whether each class is one of the task's
    places: Tensor  # (steps, replayed) in the memory
    draws: Tensor  # (changed steps, …) of the augmentation


@dataclass
class Replay:
    """Learns a mini-batch together with samples drawn from the memory (Algorithm 1, client).

    Args:
        model: The model that learns.
        optimizer: The optimiser of the model.
        loss: The loss of a gradient step, over new and replayed samples.
        memory: The memory; None: nothing is replayed.
        generator: The random generator of the augmentations.
        steps: Gradient steps for each mini-batch.
        replay: `past`: samples of past tasks alone are replayed; `all`: of the whole memory.
        ratio: Samples that are replayed for each new one.
        augment: Changes samples at random; None: they stay as they are.
        augmented: `new`: the augmentation changes the new samples, in the steps after the first;
            `all`: it changes all samples in all steps.
        contrast: The supervised contrastive term; None: there is none. With an augmentation of all
            samples, it compares two views of each, and both are classified.
        distillation: The term that keeps predictions near the global model's; None: there is none.
        penalty: FedProx's term; None: there is none.
        objective: The loss of a step, in place of `loss` and `contrast`; None: these two.
        two_views: Whether an objective sees two views of each sample, if the augmentation changes
            all samples.
        lots: How many lots of replayed samples a step has, each drawn by itself and as large as
            `ratio` says.
        candidates: How many samples are drawn for `choose`, which chooses a lot among them.
        choose: Chooses the samples that a step replays; None: they are drawn at random.
        adjust: Changes the gradients before the optimiser's step; None: they stay as they are.
        followers: Further parts of the learner, which follow the run (`additions.py`).
        test_first: Whether a mini-batch is tested before it is learned, by a forward in evaluation
            mode; otherwise the logits of the first gradient step are its test.
        precision: The precision of the network in gradient steps on a GPU.
        capture: Whether a GPU may replay gradient steps from a graph; not if the network draws
            random numbers, or the optimiser needs the CPU in each step.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Loss
    memory: Memory | None
    generator: torch.Generator
    steps: int = 3
    replay: Literal["past", "all"] = "past"
    ratio: float = 1.0
    augment: Change | None = None
    augmented: Literal["new", "all"] = "new"
    contrast: Contrast | None = None
    distillation: Distillation | None = None
    penalty: ProximalTerm | None = None
    objective: Objective | None = None
    two_views: bool = False
    lots: int = 1
    candidates: int = 0
    choose: Choose | None = None
    adjust: Adjust | None = None
    followers: tuple[Follower, ...] = ()
    test_first: bool = False
    precision: torch.dtype = torch.float32
    capture: bool = True

    def __post_init__(self) -> None:
        self._device = next(self.model.parameters()).device
        self._captured = Captured(self.take_steps, self._device, capture=self.capture)
        changes_all = self.augment is not None and self.augmented == "all"
        contrasted = self.two_views if self.objective is not None else self.contrast is not None
        self.views = 2 if changes_all and contrasted else 1
        drawn = self.steps * self.views if changes_all else self.steps - 1  # the first is unchanged
        changes = self.augment if drawn else None
        self._draws = Draws(changes, self.generator, drawn) if changes else None

    @property
    def replays(self) -> bool:
        """Whether a GPU replays the gradient steps from a graph."""
        return self._captured.replays

    @property
    def computes_in(self) -> str:
        """The precision of the network in gradient steps, on the device where it is."""
        precision = self.precision if self._device.type == "cuda" else torch.float32
        return str(precision).removeprefix("torch.")

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Learns a mini-batch together with replayed samples, and offers it to the memory.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.

        Returns:
            The measurement (3,) that `measured` makes.
        """
        lesson = self.begin(batch, current)
        for follower in self.followers:
            follower.before_steps(len(batch.x), lesson.current)
        measurement = self._captured(*lesson)
        self.end(batch, current)
        for follower in self.followers:
            follower.after_steps(len(batch.x))
        return measurement

    def begin(self, batch: Batch, current: Sequence[int]) -> Lesson:
        """Draws the lesson of a mini-batch; offers it to the memory if keys do not need the steps.

        A GPU then computes the keys before the gradient steps, and they are read while it takes the
        steps.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.
        """
        lesson = self.lesson(batch, current)
        if self.memory is not None and self.memory.ahead:
            self.memory.update(batch.x, batch.y, batch.task, current)
        return lesson

    def end(self, batch: Batch, current: Sequence[int]) -> None:
        """Offers a mini-batch to the memory, unless `begin` has done so.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.
        """
        if self.memory is not None and not self.memory.ahead:
            self.memory.update(batch.x, batch.y, batch.task, current)

    def lesson(self, batch: Batch, current: Sequence[int]) -> Lesson:
        """Draws, for each gradient step, the samples to replay and the numbers of the augmentation.

        Args:
            batch: The mini-batch.
            current: The classes of the current task so far.
        """
        exclude = batch.task if self.replay == "past" else None  # None: nothing is excluded
        places, draws = torch.empty(self.steps, 0, dtype=torch.long), torch.empty(0)
        if self.memory is not None and len(self.memory):
            lot = self.candidates if self.choose else round(self.ratio * len(batch.x))
            drawn = [self.memory.draw(lot, exclude, self.steps) for _ in range(self.lots)]
            places = torch.cat(drawn, 1)
        if self._draws is not None:
            replayed = places.shape[1] if self.augmented == "all" else 0
            draws = self._draws.next(torch.Size([len(batch.x) + replayed, *batch.x.shape[1:]]))
        mask = members(current, outputs(self.model))
        return Lesson(batch.x, batch.y, mask, places, draws)

    def take_steps(
        self, x: Tensor, y: Tensor, current: Tensor, places: Tensor, draws: Tensor
    ) -> Tensor:
        """Takes the gradient steps of a lesson, whose tensors are the arguments.

        Args:
            x: The new samples (n, …).
            y: Their classes (n,).
            current: Whether each class is one of the current task (classes,).
            places: The places of the replayed samples in the memory (steps, replayed).
            draws: The numbers of the augmentation; empty without one.

        Returns:
            The measurement (3,) that `measured` makes.
        """
        lesson = Lesson(x, y, current, places, draws)
        first_logits, losses, n = self._tested(x), [], len(x)
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.model.train()
        inputs, classes = self.seen(lesson)
        targets = self._targets(inputs, n, classes.shape[1])
        for step, (seen, labels, target) in enumerate(zip(inputs, classes, targets, strict=True)):
            at = places[step]
            if self.choose is not None and len(at):
                seen, labels, target, at = self._chosen(seen, labels, target, at, n)
            new = n if len(seen) > 1 else 2  # a lone sample is doubled, and both are new
            seen, labels = batchable(seen), batchable(labels) if len(seen) == 1 else labels
            logits, loss = self._step_loss(seen, labels, new, current, at, is_first=step == 0)
            if self.distillation is not None and len(target):
                term = self.distillation.divergence(logits[new:], target)
                loss = loss + self.distillation.weight * term
            losses.append(loss.detach())
            if not len(first_logits):
                first_logits = logits[:n].detach()
            if self.penalty is not None:
                loss = loss + self.penalty()
            adjust = self.adjust and functools.partial(_adjusted, self.adjust, step == 0)
            descend(self.optimizer, loss, parameters, adjust)
        return measured(first_logits, y, torch.stack(losses), parameters)

    def _targets(self, inputs: Tensor, new: int, n: int) -> Tensor:
        """Computes the teacher's logits of the replayed samples in all steps.

        Args:
            inputs: The inputs of all steps (steps, views · n, …), of which the first n are the
                first view.
            new: How many of the n samples are new.
            n: How many samples a step has, new and replayed.

        Returns:
            The logits (steps, n − new, classes); empty, (steps, 0), without a teacher or without
            replayed samples.
        """
        if self.distillation is None or new == n:
            return inputs.new_empty(self.steps, 0)
        with computing_in(self.precision, self._device):
            return self.distillation.targets(inputs[:, new:n]).float()

    def _chosen(
        self, seen: Tensor, labels: Tensor, target: Tensor, at: Tensor, new: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Keeps, of a step's candidates for replay, those that `choose` chooses.

        Args:
            seen: The inputs of the step (views · n, …).
            labels: The classes of the first view (n,).
            target: The teacher's logits of the candidates; empty without a teacher.
            at: The places of the candidates in the memory.
            new: How many of the n samples are new.

        Returns:
            The same four, with fewer replayed samples.
        """
        assert self.choose is not None
        n, wanted = len(labels), min(round(self.ratio * new), len(at))
        chosen = self.choose(seen[:n], labels, new, wanted)
        rows = torch.cat([torch.arange(new, device=chosen.device), new + chosen])
        views = seen.view(self.views, n, *seen.shape[1:])[:, rows].flatten(0, 1)
        return views, labels[rows], target[chosen] if len(target) else target, at[chosen]

    def _step_loss(
        self,
        seen: Tensor,
        labels: Tensor,
        new: int,
        current: Tensor,
        places: Tensor,
        *,
        is_first: bool,
    ) -> tuple[Tensor, Tensor]:
        """Computes the logits and the loss of one gradient step, without distillation and FedProx.

        Args:
            seen: The inputs of the step (views · n, …).
            labels: The classes of the first view (n,).
            new: How many of the n samples are new.
            current: Whether each class is one of the current task (classes,).
            places: The places of the replayed samples in the memory.
            is_first: Whether it is the first step of the mini-batch.

        Returns:
            The logits of the first view (n, classes), and the loss.
        """
        with computing_in(self.precision, self._device):
            if self.contrast is None and self.objective is None:
                logits = self.model(seen).float()
                return logits, self.loss(logits, labels, new, current)
            features: Tensor = self.model.features(seen).float()  # type: ignore[operator]
        logits = self.model.head(features).view(self.views, len(labels), -1)  # type: ignore[operator]
        if self.objective is not None:
            step = Step(seen, features, logits, labels, new, current, places, is_first)
            return logits[0], self.objective(step)
        assert self.contrast is not None
        loss = self.loss(logits, labels.expand(self.views, -1), new, current).mean()
        return logits[0], loss + self.contrast(features, labels.repeat(self.views))

    def seen(self, lesson: Lesson) -> tuple[Tensor, Tensor]:
        """Returns the inputs of all steps: new samples, then replayed ones, then second views.

        Args:
            lesson: The mini-batch with its draws.

        Returns:
            The inputs (steps, views · n, …), and the classes of the first view (steps, n).
        """
        x, y = self._versions(lesson), lesson.y.expand(self.steps, -1)
        if self.memory is not None and lesson.places.shape[1]:
            old_x, old_y = self.memory.at(lesson.places)
            x, y = torch.cat([x, old_x], 1), torch.cat([y, old_y], 1)
        if self.augment is None or self.augmented != "all":
            return x, y
        views = x.repeat(self.views, *(1,) * (x.dim() - 1)).flatten(0, 1)  # (views · steps · n, …)
        changed = self.augment.apply(views, lesson.draws.transpose(0, 1).flatten(1, 2))
        of_views = changed.view(self.views, *x.shape).transpose(0, 1)
        return of_views.flatten(1, 2), y

    def _versions(self, lesson: Lesson) -> Tensor:
        """Returns the new samples for each step (steps, n, …).

        With an augmentation of new samples alone, the first step has them as they are and later
        steps have them changed; otherwise all steps have them as they are.
        """
        x, later = lesson.x, self.steps - 1
        if self.augment is None or self.augmented == "all" or not later:
            return x.expand(self.steps, *x.shape)
        copies = x.repeat(later, *(1,) * (x.dim() - 1))
        changed = self.augment.apply(copies, lesson.draws.transpose(0, 1).flatten(1, 2))
        return torch.cat([x.unsqueeze(0), changed.view(later, *x.shape)])

    def grow(self, classes: int, seed: int) -> None:
        """Gives the model, and its copies for scores and distillation, outputs for new classes.

        Args:
            classes: How many outputs there are afterwards.
            seed: The run's seed, from which the weights of new outputs are drawn.
        """
        grow_optimizer(self.optimizer, grow_head(self.model, classes, seed))
        self._captured.forget()
        if self.memory is not None:
            self.memory.grow(classes, seed)
        if self.distillation is not None:
            self.distillation.grow(classes, seed)
        if self.penalty is not None:
            self.penalty.grow()
        for follower in self.followers:
            follower.grow(classes, seed)

    def before_round(self) -> None:
        """Tells the memory that a round comes; it may score by the model from before a round."""
        if self.memory is not None:
            self.memory.before_round()

    def after_round(self, global_model: Tensors) -> None:
        """Tells memory, teacher and FedProx's term that the client has taken the global model.

        Args:
            global_model: The global model, from which FedProx's term is measured from now on.
        """
        if self.memory is not None:
            self.memory.after_round()
        if self.distillation is not None:
            self.distillation.after_round()
        if self.penalty is not None:
            self.penalty.after_round(global_model)
        for follower in self.followers:
            follower.after_round(global_model)

    def end_task(self) -> None:
        """Tells the followers; the memory knows by itself which samples are of past tasks."""
        for follower in self.followers:
            follower.end_task()

    def before_test(self) -> None:
        """Does nothing: replay learns from mini-batches alone."""

    def sends(self) -> Tensors:
        """Returns no tensors: only the model leaves a client."""
        return {}

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Does nothing: with replay, the server hands out no tensors but the model."""

    def state(self) -> State:
        """Returns the learner's state without the model, for a checkpoint."""
        return {
            "optimizer": optimizer_state(self.optimizer),
            "memory": None if self.memory is None else self.memory.state(),
            "generator": self._draws.state() if self._draws else self.generator.get_state(),
            "anchor": self.penalty.state() if self.penalty is not None else [],
            "distillation": self.distillation.state() if self.distillation is not None else {},
            **({"followers": [each.state() for each in self.followers]} if self.followers else {}),
        }

    def load_state(self, state: State) -> None:
        """Restores the learner from what `state` returned."""
        load_optimizer_state(self.optimizer, state["optimizer"])
        if self.memory is not None:
            self.memory.load_state(state["memory"])
        if self.penalty is not None:
            self.penalty.load_state(state["anchor"])
        if self.distillation is not None:
            self.distillation.load_state(state["distillation"])
        for follower, saved in zip(self.followers, state.get("followers", ()), strict=True):
            follower.load_state(saved)
        if self._draws is not None:
            self._draws.load_state(state["generator"])
        else:
            self.generator.set_state(state["generator"])
        self._captured.forget()  # the optimiser's tensors are others

    @torch.no_grad()
    def _tested(self, x: Tensor) -> Tensor:
        """Returns the logits of new samples in evaluation mode; empty unless `test_first`."""
        if not self.test_first:
            return torch.empty(0)
        self.model.eval()
        logits: Tensor = self.model(x)
        return logits


def _adjusted(adjust: Adjust, is_first: bool, gradients: list[Tensor]) -> list[Tensor]:
    """Calls `adjust` with its arguments in another order, which `functools.partial` needs."""
    return adjust(gradients, is_first)
