"""A client: one party with a model, a memory and a stream of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ofcl.compute.devices import Transfer, all_to_device
from ofcl.data.stream import Batch, Stream
from ofcl.errors import OfclError
from ofcl.evaluation.held_out import Tested
from ofcl.events import Evaluated, Event, Learned, Remembered
from ofcl.methods.learner import Learner, Learning
from ofcl.models.head import grown, outputs, width
from ofcl.privacy import Privacy
from ofcl.seeds import generator
from ofcl.state import State, Tensors, copied, copy_tensors
from ofcl.update import Update, travelling

TOLD_EVERY = 10  # mini-batches, after which a client tells anew what its memory holds


@dataclass(frozen=True)
class Schedule:
    """When a client communicates: after a burn-in in each task, every q mini-batches.

    >>> [n for n in range(50) if Schedule(burn_in=30, q=5).due(n)]
    [35, 40, 45]
    """

    burn_in: int
    q: int
    first_round: Literal["after-burn-in", "at-burn-in"] = "after-burn-in"

    def due(self, batches: int) -> bool:
        """Whether a client that has learned so many mini-batches of its task communicates."""
        start = self.burn_in + (self.first_round == "after-burn-in")
        return batches > 0 and batches >= start and batches % self.q == 0


class Outcome(NamedTuple):
    """A mini-batch that a client has learned; how it went may still be on its way from a GPU."""

    client: int
    task: int
    batch: int  # number in the task
    samples: int
    measurement: Tensor


class Outcomes:
    """How some mini-batches went, on the way to be told."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self._outcomes = outcomes
        self._coming = Transfer(torch.stack([outcome.measurement for outcome in outcomes]))

    def told(self) -> list[Event]:
        """What happened, as events; an error if something was not finite."""
        rows = self._coming.numpy().tolist()
        return [
            _told(outcome, Learning(loss, int(correct), bool(finite)))
            for outcome, (loss, correct, finite) in zip(self._outcomes, rows, strict=True)
        ]


def _told(outcome: Outcome, learning: Learning) -> Learned:
    client, task, batch, n, _ = outcome
    if not learning.finite:
        raise OfclError(
            f"the loss of client {client} is not finite (task {task}, mini-batch {batch}); "
            "lower the learning rate, or look at that part of its data"
        )
    return Learned(client, task, 1, n, learning.loss * n, learning.correct)


class Client:
    """Learns from its stream mini-batch by mini-batch, and takes part in rounds.

    `waiting` says that it has reached a communication point; it learns on when the server has
    answered (`receive`) or when it is let go without an answer (`go_on`). `finished` says that its
    stream has ended and its last task has been evaluated; `tasks` None means that the stream alone
    knows how many there are. With a `barrier` it stays `between_tasks` until all have come so far,
    and the server hands out what the next task needs (`begin_task`). With `anchored` it keeps the
    last global model (`anchor`), from which FedProx does not let it go far. With `privacy`, what it
    sends is clipped and noisy.
    """

    def __init__(
        self,
        number: int,
        *,
        tasks: int | None,
        model: nn.Module,
        learner: Learner,
        stream: Stream,
        test: Tested,
        validation: Tested,
        schedule: Schedule,
        class_counts: bool = False,
        mixing: float = 1.0,
        batchnorm: Literal["average", "reset", "local"] = "average",
        barrier: bool = False,
        anchored: bool = False,
        privacy: Privacy | None = None,
        seed: int = 0,
    ) -> None:
        self.number, self.model, self.learner = number, model, learner
        self.stream, self.schedule = stream, schedule
        parameters = model.parameters() if anchored else []
        self.anchor: list[Tensor] = [p.detach().clone() for p in parameters]
        self.task, self.waiting, self.finished = 0, False, False
        self.between_tasks, self._barrier = False, barrier
        self.learned = 0  # mini-batches
        self._told = 0  # of them, when it last told what its memory holds
        self._tasks, self._seed = tasks, seed
        self._test, self._validation = test, validation
        self._class_counts, self._mixing, self._batchnorm = class_counts, mixing, batchnorm
        self._batches = 0  # of the current task
        self._classes: Counter[int] = Counter()  # samples of the current task
        self._seen: list[list[int]] = []  # the classes of the tasks before
        self._privacy = privacy
        self._start: Tensors = {}
        self.released = 0  # updates that have left it
        self._noise = generator(seed, "privacy", number)
        self._bind()
        if privacy is not None:
            self._begin_from(self._travelling)

    def draw_noise_by(self, seed: int) -> None:
        """Lets the noise of its privacy come from a seed that nobody else knows."""
        self._noise.manual_seed(seed)

    def _begin_from(self, model: Tensors) -> None:
        """Notes the global model from which what it sends will be measured."""
        self._start = {name: model[name].detach().clone() for name in self._travelling}

    def _bind(self) -> None:
        """Takes hold of the model's tensors: those that travel, and those that a client mixes."""
        held: Tensors = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        leaving = travelling(self.model, statistics=self._batchnorm == "average")
        # `reset` statistics do not travel, but a client mixes in the global ones: 0 and 1.
        mixed = travelling(self.model, statistics=self._batchnorm != "local")
        self._travelling = {name: held[name] for name in leaving}
        self._mixed = {name: held[name] for name in mixed}
        self._parameters = [name for name, _ in self.model.named_parameters()]

    @property
    def at_task_end(self) -> bool:
        """Whether it has learned all of its current task and is to be evaluated on it."""
        following = self.stream.next_task()
        return not self.finished and (following is None or following > self.task)

    def take(self) -> tuple[Batch, list[int]]:
        """The next mini-batch of its stream, and the classes of its task that have been seen."""
        batch = next(self.stream)
        self.grow(int(batch.y.max()) + 1)
        self._batches, self.learned = self._batches + 1, self.learned + 1
        self._classes.update(batch.y.tolist())
        self.waiting = self.schedule.due(self._batches)
        return batch, sorted(self._classes)

    def learn(self) -> Outcome:
        """Learns the next mini-batch of its stream."""
        batch, current = self.take()
        return self.outcome(batch, self.learner.learn(batch, current))

    def outcome(self, batch: Batch, measurement: Tensor) -> Outcome:
        """What is to be told of the mini-batch that was taken last."""
        return Outcome(self.number, self.task, self._batches, len(batch.y), measurement)

    def end_task(self, global_model: Tensors) -> Evaluated:
        """Evaluates its model and the global one on all tasks so far, and turns to the next."""
        self._seen.append(sorted(self._classes))
        seen = self._seen
        test, validation = (held.hits(self.model, seen) for held in (self._test, self._validation))
        self.grow(width(global_model))  # it may have missed the round in which a class came
        own = {name: value.detach().clone() for name, value in self._mixed.items()}
        global_model = grown(global_model, outputs(self.model), self._seed)
        copy_tensors(self._mixed, global_model)
        global_test = self._test.hits(self.model, seen)
        copy_tensors(self._mixed, own)
        event = Evaluated(self.number, self.task, test, validation, global_test)
        self.learner.end_task()
        self.task += 1
        ended = self.stream.next_task() is None
        self.finished = ended if self._tasks is None else self.task == self._tasks
        self.between_tasks = self._barrier and not self.finished
        if not self.between_tasks:
            self._turn()
        return event

    def remembered(self, now: bool = False) -> list[Event]:
        """What its memory holds, if it is time to tell that again, or `now`."""
        memory = self.learner.memory
        if memory is None or not (now or self.learned >= self._told + TOLD_EVERY):
            return []
        self._told = self.learned
        return [Remembered(self.number, self.task, self.learned, memory.class_counts())]

    def _turn(self) -> None:
        """Turns to the next task."""
        self._batches, self.between_tasks = 0, False
        self._classes.clear()

    def grow(self, classes: int) -> None:
        """Makes sure that the model has so many outputs; those there do not change."""
        if classes <= outputs(self.model):
            return
        self.learner.grow(classes, self._seed)
        for i, anchor in enumerate(self.anchor):
            parameter = self.model.get_parameter(self._parameters[i]).detach()
            if anchor.shape != parameter.shape:
                self.anchor[i] = torch.cat([anchor, parameter[len(anchor) :]])
        self._bind()

    def update(self) -> Update:
        """What it sends at a communication point."""
        state = copied(self._travelling)
        self.released += 1
        if self._privacy is not None:
            start = grown(self._start, outputs(self.model), self._seed)
            state = self._privacy.noised(state, start, self._noise)
        classes = dict(self._classes) if self._class_counts else {}
        return Update(self.number, state, self._classes.total(), classes, self.learner.sends())

    @torch.no_grad()
    def receive(self, global_model: Tensors) -> None:
        """Takes the global model: a share of it and the rest of its own."""
        self.grow(width(global_model))
        global_model = grown(global_model, outputs(self.model), self._seed)
        self.learner.before_round()
        theirs = [global_model[name] for name in self._mixed]
        torch._foreach_lerp_(list(self._mixed.values()), theirs, self._mixing)
        if self._privacy is not None:
            self._begin_from(global_model)
        if self.anchor:
            torch._foreach_copy_(self.anchor, [global_model[name] for name in self._parameters])
        self.learner.after_round(global_model)
        self.go_on()

    def begin_task(self, global_model: Tensors, handed: Tensors) -> None:
        """Takes what the server hands out when a task has ended for all; turns to the next."""
        self.learner.receives(global_model, handed)
        self._turn()

    def go_on(self) -> None:
        """Leaves the communication point."""
        self.waiting = False

    def state(self) -> State:
        """Everything, for a checkpoint."""
        return {
            "model": self.model.state_dict(),
            "anchor": self.anchor,
            "start": self._start,
            "released": self.released,
            "noise": self._noise.get_state(),
            "learner": self.learner.state(),
            "stream": self.stream.state(),
            "task": self.task,
            "seen": self._seen,
            "waiting": self.waiting,
            "finished": self.finished,
            "between_tasks": self.between_tasks,
            "learned": self.learned,
            "told": self._told,
            "batches": self._batches,
            "classes": [list(item) for item in sorted(self._classes.items())],
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        self.grow(width(state["model"]))
        self.model.load_state_dict(state["model"])
        for anchor, value in zip(self.anchor, state["anchor"], strict=True):
            anchor.copy_(value)
        if "released" in state:
            device = next(self.model.parameters()).device
            self._start = all_to_device(state["start"], device)
            self.released = int(state["released"])
            self._noise.set_state(state["noise"])
        self.learner.load_state(state["learner"])
        self.stream.load_state(state["stream"])
        self.task, self.waiting = int(state["task"]), bool(state["waiting"])
        self._seen, self.finished = state["seen"], bool(state["finished"])
        self.between_tasks = bool(state["between_tasks"])
        self._batches, self.learned = int(state["batches"]), int(state["learned"])
        self._told = int(state.get("told", self.learned))  # here and below: older ones have none
        self._classes = Counter(dict(state["classes"]))
