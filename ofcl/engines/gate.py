"""The server trusts nobody: what a client answers is checked before anything is done with it.

An answer of a wrong run, exchange or client, with tensors of wrong names, shapes or types, with
numbers that are not finite, or with counts that cannot be, is rejected as a whole; the round is
without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import Tensor

from ofcl.data.files.labels import label_name
from ofcl.engines.messages import Reply, Request, Status, unpack_reply
from ofcl.errors import OfclError
from ofcl.events import Evaluated, Event, Learned, Round, TaskEnded
from ofcl.models.head import BIAS, FEWEST_CLASSES, WEIGHT
from ofcl.state import State, Tensors
from ofcl.update import Update

LONGEST_LABEL = 200  # letters


class Rejected(OfclError):
    """An answer that cannot be right."""


class Gate:
    """Lets answers pass that could be right.

    `model` is what updates look like: names, shapes (a head may have up to `classes` outputs) and
    types. A client has at most `most_samples` of a task, and never more than it has learned
    mini-batches of `batch_size`. It asks for places of at most `most_labels` new words at once, and
    tells of events of the kinds `told` alone.
    """

    def __init__(
        self,
        model: Tensors,
        *,
        classes: Callable[[], int],
        batch_size: int,
        most_samples: int = 10**9,
        most_labels: int = 0,
        most_tasks: int,
        class_counts: bool = False,
        extras: bool = False,
        told: tuple[type[Event], ...] = (Learned, Evaluated),
    ) -> None:
        self._model, self._vocabulary, self._most = model, classes, most_samples
        self._batch_size, self._most_labels = batch_size, most_labels
        self._class_counts, self._extras = class_counts, extras
        self._most_tasks, self._told = most_tasks, told

    @property
    def _classes(self) -> int:
        return max(self._vocabulary(), FEWEST_CLASSES)

    def passed(self, state: State, request: Request, client: int) -> Reply:
        """The answer of a client to a request, or `Rejected` with what is wrong with it."""
        try:
            return self._checked(unpack_reply(state), request, client)
        except Rejected:
            raise
        except Exception as error:  # something is of another type than anybody could expect
            raise Rejected(f"it cannot be read ({type(error).__name__}: {error})") from None

    def _checked(self, reply: Reply, request: Request, client: int) -> Reply:
        _same("run", reply.run, request.run)
        _same("exchange", reply.exchange, request.exchange)
        _same("client", reply.client, client)
        if reply.status not in get_args(Status):
            raise Rejected(f"its status is {reply.status!r}")
        _count("number of mini-batches", reply.learned, 10**12)
        _count("number of updates", reply.released, reply.exchange)
        for event in reply.events:
            self._check_event(event, client)
        sends = reply.status in ("waiting", "between-tasks")
        if sends != (reply.update is not None):
            raise Rejected(
                f"its status is {reply.status}, and {'no' if sends else 'an'} update came"
            )
        if reply.update is not None:
            self._check_update(reply.update, client)
            _count("number of samples", reply.update.samples, reply.learned * self._batch_size)
        self._check_labels(reply.labels)
        return reply

    def _check_labels(self, labels: Any) -> None:
        if not isinstance(labels, list) or len(labels) > self._most_labels:
            raise Rejected(f"it asks for places of labels; expected at most {self._most_labels}")
        for label in labels:
            check_label(label)

    def _check_update(self, update: Update, client: int) -> None:
        _same("client of the update", update.client, client)
        _count("number of samples", update.samples, self._most)
        if update.classes and not self._class_counts:
            raise Rejected("class counts came, which nobody asked for")
        for place, count in update.classes.items():
            _count("place of a class", place, self._classes - 1)
            _count("number of samples of a class", count, update.samples, least=1)
        self._check_tensors(update.state)
        if update.extras and not self._extras:
            raise Rejected(f"'{next(iter(update.extras))}' came, which nobody asked for")
        if self._extras and not update.extras:
            raise Rejected("what the method sends besides the model is missing")
        for name, tensor in update.extras.items():
            _finite(name, tensor)
        if update.extras:
            self._check_classes(update.extras)

    def _check_classes(self, extras: Tensors) -> None:
        """The classes that a generative method tells of: those of its task, and past ones."""
        for name in ("now", "past"):
            classes = extras.get(name, torch.empty(0, dtype=torch.long))
            known = torch.arange(self._classes)
            if (
                classes.dtype != torch.long
                or classes.dim() != 1
                or (not torch.isin(classes, known).all())
            ):
                raise Rejected(f"'{name}' is not a list of classes")
        if "now" not in extras:
            raise Rejected("the classes of its task are missing")

    def _check_tensors(self, state: Tensors) -> None:
        if state.keys() != self._model.keys():
            odd = sorted(state.keys() ^ self._model.keys())
            raise Rejected(f"its tensors are others: '{odd[0]}' is missing or too many")
        for name, wanted in self._model.items():
            tensor = state[name]
            if not isinstance(tensor, Tensor) or tensor.dtype != wanted.dtype:
                raise Rejected(f"'{name}' is of another type")
            if not self._fits(name, tensor, wanted):
                shapes = f"{tuple(tensor.shape)}, not {tuple(wanted.shape)}"
                raise Rejected(f"'{name}' has the shape {shapes}")
            _finite(name, tensor)
        if BIAS in state and len(state[BIAS]) != len(state[WEIGHT]):
            raise Rejected("the parts of its head do not fit together")

    def _fits(self, name: str, tensor: Tensor, wanted: Tensor) -> bool:
        if name not in (WEIGHT, BIAS):
            return tensor.shape == wanted.shape
        # A head may not have heard of the newest classes, or have met one first.
        alike = tensor.dim() == wanted.dim() and tensor.shape[1:] == wanted.shape[1:]
        return alike and 0 < len(tensor) <= max(self._classes, len(wanted))

    def _check_event(self, event: Event, client: int) -> None:
        if not isinstance(event, self._told) or isinstance(event, Round | TaskEnded):
            raise Rejected(f"it tells of {type(event).__name__}, which it cannot")
        _same("client of an event", event.client, client)
        _count("task", getattr(event, "task", 0), self._most_tasks - 1)
        if isinstance(event, Learned):
            _count("number of mini-batches", event.batches, 10**6)
            _count("number of samples", event.samples, event.batches * self._batch_size)
            _count("number of right predictions", event.correct, event.samples)
            if type(event.loss) is not float or not math.isfinite(event.loss):
                raise Rejected(f"its loss is {event.loss!r}")
        if isinstance(event, Evaluated):
            for hits in (event.test, event.validation, event.global_test):
                _check_hits(hits)
                if len(hits) > event.task + 1:
                    raise Rejected("it was tested on tasks that it has not come to")


def check_label(label: Any) -> None:
    """Rejects what cannot be the name of a class."""
    try:
        good = isinstance(label, str) and len(label) <= LONGEST_LABEL and label_name(label) == label
    except ValueError:
        good = False
    if not good:
        raise Rejected(f"{str(label)[:40]!r} cannot be the name of a class")


def _check_hits(hits: Any) -> None:
    try:
        rows = [row for task in hits for row in task]
        good = all(len(row) == 3 and 0 <= row[1] <= row[2] for row in rows)
        good = good and all(type(number) is int for row in rows for number in row)
    except TypeError:
        good = False
    if not good:
        raise Rejected("its counts of right predictions cannot be")


def _same(what: str, given: Any, wanted: Any) -> None:
    if type(given) is not type(wanted) or given != wanted:
        raise Rejected(f"its {what} is {given!r}, not {wanted!r}")


def _count(what: str, value: Any, most: int, least: int = 0) -> None:
    if type(value) is not int or not least <= value <= most:
        raise Rejected(f"its {what} is {value!r}; expected {least} to {most}")


def _finite(name: str, tensor: Any) -> None:
    if not isinstance(tensor, Tensor) or not bool(tensor.isfinite().all()):
        raise Rejected(f"'{name}' has values that are not finite")
