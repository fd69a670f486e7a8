"""A client: a model, a memory and a stream of its own; when it communicates, what it sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ofcl.communication.schedule import Barrier, Schedule
from ofcl.communication.sender import Sender
from ofcl.communication.sharing import Sharing
from ofcl.compute.devices import all_to_device
from ofcl.compute.foreach import move_towards
from ofcl.data.stream import Batch, Stream
from ofcl.evaluation.held_out import (
    HeldOutParts,
    Predictions,
    Tested,
    count_confusions,
    count_hits,
)
from ofcl.events import Evaluated, Event, Remembered
from ofcl.memory.memory import Memory
from ofcl.methods.learner import Learner
from ofcl.methods.nearest_mean import Classifier, as_tested, memory_sums
from ofcl.models.head import grown, outputs, width
from ofcl.models.prototypes import NearestMean, prototypes
from ofcl.pretrained.referred import load_saved, saved_state
from ofcl.privacy import Draw
from ofcl.state import State, Tensors, copied, copy_tensors
from ofcl.update import Update, travelling

BATCHES_BETWEEN_COUNTS = 10  # after so many a client tells anew how its memory is composed


class Outcome(NamedTuple):
    """A mini-batch that a client has learned.

    Args:
        client: The number of the client.
        task: The number of the client's task.
        batch: The number of the mini-batch in the task, from 1.
        samples: The number of its samples.
        measurement: Its loss and right predictions, as `methods.learner.measured` makes them; the
            tensor may still be on the device.
    """

    client: int
    task: int
    batch: int
    samples: int
    measurement: Tensor


class Client:
    """Learns from its stream mini-batch by mini-batch, and takes part in rounds.

    Its state, for whoever runs it:

    - `waiting`: it has reached a communication point; it learns on when the server has answered
      (`receive`), or when it is let go without an answer (`go_on`).
    - `between_tasks`: it has ended a task and waits until all have, and until the server has held
      the closing round and handed out what the next task needs (`begin_task`).
    - `finished`: its stream has ended, and its last task has been evaluated.

    Args:
        number: Its number in the run, from 0.
        learner: The method at this client, with the model that learns.
        stream: Its mini-batches.
        held_out: The samples that it is tested on.
        schedule: When it communicates.
        sharing: What it sends, and how it takes the global model.
        tasks: How many tasks there are; None: its last task ends when the stream ends.
        barrier: Where it waits for the others when it has ended a task (`Barrier`).
        classifier: How a model predicts when it is tested (`Classifier`).
        seed: The run's seed.

    Attributes:
        sender: Makes the tensors of its updates.
    """

    def __init__(
        self,
        number: int,
        *,
        learner: Learner,
        stream: Stream,
        held_out: HeldOutParts,
        schedule: Schedule,
        sharing: Sharing = Sharing(),  # noqa: B008 (it is frozen)
        tasks: int | None = None,
        barrier: Barrier = "none",
        classifier: Classifier = "head",
        seed: int = 0,
    ) -> None:
        self.number, self.learner, self.model = number, learner, learner.model
        self.stream, self.schedule = stream, schedule
        self.task, self.waiting, self.finished = 0, False, False
        self.between_tasks, self._barrier = False, barrier
        self._closed = False  # whether the closing round of its task is over
        self._is_global = False  # whether its model is the global one, unchanged
        self.begun = 0  # how often `begin_task` was called
        self.learned = 0  # mini-batches
        self._counted = 0  # of them, when it last told how its memory is composed
        self._tasks, self._seed = tasks, seed
        self._held_out, self._sharing, self._classifier = held_out, sharing, classifier
        self._prototypes: Tensors = {}  # of the global model that it is tested with next
        self._batches = 0  # of the current task
        self._classes: Counter[int] = Counter()  # samples of the current task
        self._seen: list[list[int]] = []  # the classes of the tasks before
        self.sender = Sender(sharing, number, seed)
        self._bind()
        self.sender.measure_from(self._travelling, self._travelling)

    def protect(self, noise: float, fewest_new: int, draw: Draw) -> None:
        """Sets the limits of the party behind the client, before it learns (`Sender.protect`).

        Args:
            noise: The noise on updates, as a multiple of their change.
            fewest_new: The fewest new samples behind an update.
            draw: Draws normal numbers of a shape.
        """
        self.sender.protect(noise, fewest_new, draw)
        self.sender.measure_from(self._travelling, self._travelling)

    @property
    def validation(self) -> Tested:
        """Its validation samples."""
        return self._held_out.validation

    def _bind(self) -> None:
        """Looks up the tensors of its model that it sends, and those that it mixes with others.

        Called again when the model has grown, because its head then has new tensors.
        """
        tensors: Tensors = {
            **dict(self.model.named_parameters()),
            **dict(self.model.named_buffers()),
        }
        batchnorm = self._sharing.batchnorm
        leaving = travelling(self.model, statistics=batchnorm == "average")
        # `reset` statistics do not travel, but a client mixes in the global ones: 0 and 1.
        mixed = travelling(self.model, statistics=batchnorm != "local")
        self._travelling = {name: tensors[name] for name in leaving}
        self._mixed = {name: tensors[name] for name in mixed}

    @property
    def at_task_end(self) -> bool:
        """Whether its current task has no mini-batch left, so that `end_task` is next."""
        following = self.stream.next_task()
        return not self.finished and (following is None or following > self.task)

    def take(self) -> tuple[Batch, list[int]]:
        """Takes the next mini-batch of its stream, and counts it as learned.

        Returns:
            The mini-batch, and the classes of its task that have come so far, in order.
        """
        batch, self._is_global = next(self.stream), False
        self.grow(int(batch.y.max()) + 1)
        self._batches, self.learned = self._batches + 1, self.learned + 1
        self.sender.learned(len(batch.y))
        self._classes.update(batch.y.tolist())
        self.waiting = self.schedule.due(self._batches)
        return batch, sorted(self._classes)

    def learn(self) -> Outcome:
        """Learns the next mini-batch of its stream.

        Returns:
            The outcome of the mini-batch.
        """
        batch, current = self.take()
        return self.outcome(batch, self.learner.learn(batch, current))

    def outcome(self, batch: Batch, measurement: Tensor) -> Outcome:
        """Puts together the outcome of the mini-batch that was taken last.

        Args:
            batch: The mini-batch, as `take` returned it.
            measurement: Its loss and right predictions, as `methods.learner.measured` makes them.
        """
        return Outcome(self.number, self.task, self._batches, len(batch.y), measurement)

    def end_task(self, global_model: Tensors) -> Evaluated | None:
        """Ends its task: evaluates its model and the global one, and turns to the next task.

        If its barrier is before the test, the first call only makes it wait (`between_tasks`); the
        call after `begin_task` evaluates.

        Args:
            global_model: The global model.

        Returns:
            The evaluation on all tasks so far; None if the client waits before its test.
        """
        if self._waits_before_test():
            self.learner.before_test()
            self.learner.end_task()
            self.between_tasks = True
            return None
        if not self._closed:
            self.learner.before_test()
        self._seen.append(sorted(self._classes))
        model = self._predicting(self._prototypes if self._is_global else {})
        test = self._held_out.test.hits(model, self._seen)
        validation = self._held_out.validation.hits(model, self._seen)
        of_global = self._test_global(global_model)
        confusions = count_confusions(of_global) if self._in_last_task() else []
        event = Evaluated(
            self.number, self.task, test, validation, count_hits(of_global), confusions
        )
        if not self._closed:
            self.learner.end_task()
        self.finished, self._closed, self._prototypes = self._in_last_task(), False, {}
        self.task += 1
        self.between_tasks = self._barrier == "after-test" and not self.finished
        if not self.between_tasks:
            self._begin_next()
        return event

    def _waits_before_test(self) -> bool:
        """Tells whether it has still to wait for the others before its test (`Barrier`)."""
        if self._closed or self._barrier in ("none", "after-test"):
            return False
        return self._barrier == "before-test" or self._in_last_task()

    def _in_last_task(self) -> bool:
        """Tells whether the task that has no mini-batch left is its last one."""
        if self._tasks is None:
            return self.stream.next_task() is None
        return self.task + 1 == self._tasks

    def _test_global(self, global_model: Tensors) -> list[Predictions]:
        """Tests the global model, with which it replaces its own model for the time of the test.

        Returns:
            The predictions for the test samples of each task so far.
        """
        with self._as_global(global_model):
            return self._held_out.test.predictions(self._predicting(self._prototypes), self._seen)

    @contextmanager
    def _as_global(self, global_model: Tensors) -> Iterator[None]:
        """Gives its model the weights of the global model, and at the end its own again."""
        with self.holding({name: global_model[name] for name in self._mixed}):
            yield

    @contextmanager
    def holding(self, tensors: Tensors) -> Iterator[None]:
        """Lets its model have other tensors within the context, and puts its own back afterwards.

        Args:
            tensors: The tensors by name. If their head has more outputs than the model, the model
                grows, and stays so.
        """
        self.grow(width(tensors))  # it may have missed the round in which a class came
        current = {name: value for name, value in self._tensors().items() if name in tensors}
        own = copied(current)
        copy_tensors(current, grown(tensors, outputs(self.model), self._seed))
        try:
            yield
        finally:
            copy_tensors(current, own)

    def prototypes(self, memory: Memory | None, known: Tensors) -> Tensors:
        """Returns the prototypes by which its model, as it is now, predicts when it is tested.

        Args:
            memory: The memory whose samples they are made from.
            known: Prototypes that were made of all clients' memories; {}: there are none.

        Returns:
            The prototypes; {} if the model predicts by its head.
        """
        if self._classifier == "head":
            return {}
        return known or prototypes([memory_sums(self.model, memory)])

    def test(self, means: Tensors) -> list[Predictions]:
        """Lets its model, as it is now, predict its test samples of the tasks that have ended.

        Args:
            means: The prototypes by which it predicts; {}: it predicts by its head.

        Returns:
            The predictions for each task.
        """
        model = NearestMean(self.model, means) if means else self.model
        return self._held_out.test.predictions(model, self._seen)

    @property
    def classes_of_tasks(self) -> list[list[int]]:
        """The classes of each task that has ended."""
        return [list(classes) for classes in self._seen]

    def own_model(self) -> Tensors:
        """Copies the tensors of its model, with BatchNorm's statistics."""
        return copied(self._tensors())

    def global_model(self, received: Tensors) -> Tensors:
        """Returns the global model as this client uses it.

        BatchNorm's statistics are the client's own if they do not travel.

        Args:
            received: The tensors that the server has sent.
        """
        return {**self.own_model(), **{name: received[name] for name in self._mixed}}

    def _tensors(self) -> Tensors:
        """Returns the tensors of its model, with BatchNorm's statistics, without a copy."""
        return travelling(self.model, statistics=True)

    def _predicting(self, known: Tensors) -> nn.Module:
        """Returns its model as it predicts when it is tested.

        Args:
            known: The prototypes of the model's features; {}: those of its own memory are used.
        """
        return as_tested(self.model, self._classifier, self.learner.memory, known)

    def survey(self, global_model: Tensors) -> Update:
        """Adds up the features of its memory for the server, which makes prototypes of them.

        Args:
            global_model: The global model, which computes the features.

        Returns:
            An update without a model. Its extras are the sums and counts of `feature_sums`; all are
            zero if the client keeps them back (`Sharing.features`).
        """
        with self._as_global(global_model):
            sums = memory_sums(self.model, self.learner.memory)
        if not self._sharing.features:
            sums = {name: torch.zeros_like(value) for name, value in sums.items()}
        return Update(self.number, {}, self._classes.total(), {}, sums)

    def remembered(self, now: bool = False) -> list[Event]:
        """Tells how its memory is composed, if it has learned enough since it last did.

        Args:
            now: Whether to tell it in any case.

        Returns:
            One `Remembered`; empty if it is too early, or the method has no memory.
        """
        memory = self.learner.memory
        due = self.learned >= self._counted + BATCHES_BETWEEN_COUNTS
        if memory is None or not (now or due):
            return []
        self._counted = self.learned
        return [Remembered(self.number, self.task, self.learned, memory.class_counts())]

    def _begin_next(self) -> None:
        """Sets the counts of its current task to zero, as the next task begins."""
        self._batches = 0
        self._classes.clear()

    def grow(self, classes: int) -> None:
        """Makes sure that the model has enough outputs; the outputs that it has do not change.

        Args:
            classes: How many outputs the model needs; if it has more, it keeps them.
        """
        if classes <= outputs(self.model):
            return
        self.learner.grow(classes, self._seed)
        self._bind()

    def update(self, instead: Tensors | None = None) -> Update:
        """Makes the update that it sends now; with differential privacy, clipped and noisy.

        Args:
            instead: The global model, which it sends back without weight if there are too few new
                samples behind the update (`Sender`); None: the update is sent in any case.
        """
        sent = self.sender.send(self._travelling, outputs(self.model), instead)
        samples = 0 if sent.kept_back else self._classes.total()
        told = self._sharing.class_counts and not sent.kept_back
        classes = dict(self._classes) if told else {}
        extras = self.learner.sends()
        return Update(self.number, sent.state, samples, classes, extras, coded=sent.coded)

    @torch.no_grad()
    def receive(self, global_model: Tensors) -> None:
        """Takes the global model, and leaves the communication point.

        The model becomes `mixing` parts of the global model and 1 − `mixing` parts of its own.

        Args:
            global_model: The global model.
        """
        self.sender.received(global_model, self._travelling)
        self.grow(width(global_model))
        global_model = grown(global_model, outputs(self.model), self._seed)
        self.learner.before_round()
        theirs = [global_model[name] for name in self._mixed]
        move_towards(list(self._mixed.values()), theirs, self._sharing.mixing)
        self._is_global = self._sharing.mixing == 1.0
        self.sender.measure_from(global_model, self._travelling)
        self.learner.after_round(global_model)
        self.go_on()

    def begin_task(self, global_model: Tensors, handed: Tensors) -> None:
        """Goes on after a task has ended for all clients.

        Next comes its test if the client waited before the test, else the next task.

        Args:
            global_model: The global model.
            handed: The tensors that the server's part of the method hands out; empty if it has no
                part.
        """
        self.learner.receives(global_model, handed)
        self._prototypes = handed if self._classifier == "nearest-mean" else {}
        self.begun += 1
        self.between_tasks = False
        if self._barrier == "after-test":
            self._begin_next()
        else:
            self._closed = True

    def go_on(self) -> None:
        """Leaves the communication point with its own model."""
        self.waiting = False

    def state(self) -> State:
        """Gives its whole state, for a checkpoint: model, memory, place in the stream, counts."""
        return {
            "model": saved_state(self.model),
            **self.sender.state(),
            "learner": self.learner.state(),
            "stream": self.stream.state(),
            "task": self.task,
            "seen": self._seen,
            "waiting": self.waiting,
            "finished": self.finished,
            "between_tasks": self.between_tasks,
            "closed": self._closed,
            "is_global": self._is_global,
            "prototypes": self._prototypes,
            "begun": self.begun,
            "learned": self.learned,
            "told": self._counted,
            "batches": self._batches,
            "classes": [list(item) for item in sorted(self._classes.items())],
        }

    def load_state(self, state: State) -> None:
        """Puts back a state of this client.

        Args:
            state: The state that `state` gave; those of earlier versions lack a few keys. Without
                a position in the stream, the stream stays where it is.
        """
        self.grow(width(state["model"]))
        load_saved(self.model, state["model"])
        device = next(self.model.parameters()).device
        self.sender.load_state(state, device)
        # FedProx's anchor was the client's before it was the learner's.
        self.learner.load_state({"anchor": state.get("anchor", []), **state["learner"]})
        if "stream" in state:
            self.stream.load_state(state["stream"])
        self.task, self.waiting = int(state["task"]), bool(state["waiting"])
        self._seen, self.finished = state["seen"], bool(state["finished"])
        self.between_tasks = bool(state["between_tasks"])
        self._closed = bool(state.get("closed", False))
        self._is_global = bool(state.get("is_global", False))
        self._prototypes = all_to_device(state.get("prototypes", {}), device)
        self.begun = int(state.get("begun", self.task - self.between_tasks))
        self._batches, self.learned = int(state["batches"]), int(state["learned"])
        self._counted = int(state.get("told", self.learned))
        self._classes = Counter(dict(state["classes"]))
