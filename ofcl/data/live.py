"""Streams that have no end: samples as they arrive, in mini-batches, with classes nobody announced.

A `Feed` brings samples: from an iterator, a watched folder, standard input (`feeds.py`). A
`LiveStream` makes mini-batches of them. What it has handed out counts as learned, sample by sample;
a feed that can be opened again is opened behind those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from ofcl.data.form import Form
from ofcl.data.labels import label_name
from ofcl.data.reading import OnBad
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.events import Appeared, Event, Skipped
from ofcl.state import State

ALL = -1  # rows of a source that has been learned to its end


class StreamError(OfclError):
    """A stream brought something that cannot be used; the learner has kept its state."""


@dataclass(frozen=True)
class Sample:
    """One sample as a feed brings it."""

    x: Any
    label: Any
    task: Any = None  # whatever changes when a task ends; None: nobody says where tasks end
    source: str = ""  # the file that it came from
    row: int = 0  # its place in it
    last: bool = False  # whether its source ends with it
    problem: str = ""  # why it cannot be used


@runtime_checkable
class Feed(Protocol):
    """Where the samples of a stream come from."""

    rereads: bool
    """Whether it can be opened again at the samples that were not learned."""

    known: State
    """What it has found out and must not forget between two openings: plain values."""

    def open(self, taken: Mapping[str, int]) -> Iterator[Sample | None]:
        """Samples behind those that were taken of each source; None: there is nothing just now."""


class Vocabulary:
    """The labels of a run, each with a place; a new one gets the next.

    >>> words = Vocabulary()
    >>> words.place("cat"), words.place("dog"), words.place("cat")
    (0, 1, 0)
    """

    def __init__(self, labels: tuple[str, ...] = ()) -> None:
        self._places = {label: place for place, label in enumerate(labels)}

    def __contains__(self, label: str) -> bool:
        return label in self._places

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels in the order of their places."""
        return tuple(self._places)

    def place(self, label: str) -> int:
        """The place of a label."""
        return self._places.setdefault(label, len(self._places))


class LiveStream:
    """The mini-batches of a feed. A batch is smaller where a task or the stream ends."""

    def __init__(
        self,
        client: int,
        feed: Feed,
        form: Form,
        vocabulary: Vocabulary,
        batch_size: int,
        on_bad: OnBad = "stop",
    ) -> None:
        self._client, self._feed, self.form, self._vocabulary = client, feed, form, vocabulary
        self._batch_size, self._on_bad = batch_size, on_bad
        self._arriving: Iterator[Sample | None] | None = None
        self._pending: list[Sample] = []
        self._taken: dict[str, int] = {}
        self._ended = False
        self._task: tuple[int, Any] | None = None  # number and name; None before the first batch
        self._notices: list[Event] = []

    def ready(self) -> bool:
        """Whether the next batch, or the end, is there; takes in what has arrived."""
        if self._arriving is None:
            self._arriving = self._feed.open(self._taken)
        while not self._complete():
            try:
                sample = next(self._arriving)
            except StopIteration:
                self._ended = True
                return True
            if sample is None:
                return False
            self._pending.append(self._checked(sample))
            self._leave_out_bad()
        return True

    def next_task(self) -> int | None:
        """The task of the batch that comes next; None when the stream has ended."""
        if not self._pending:
            return None
        if self._task is None:
            return 0
        number, name = self._task
        return number if self._pending[0].task == name else number + 1

    def __next__(self) -> Batch:
        while not self._complete() and not self._ended:
            self.ready()
        task = self.next_task()
        if task is None:
            raise StopIteration
        name = self._pending[0].task
        good: list[Sample] = []
        while self._pending and len(good) < self._batch_size and self._pending[0].task == name:
            good.append(self._take())
            self._leave_out_bad()
        self._task = task, name
        y = torch.tensor([self._place(sample.label) for sample in good])
        x = self.form.tensor([sample.x for sample in good])
        return Batch(x, y.to(x.device), None if name is None else task)

    def notices(self) -> list[Event]:
        """What there is to tell since it was last asked: new classes, samples left out."""
        notices, self._notices = self._notices, []
        return notices

    def state(self) -> State:
        """The position, for a checkpoint."""
        pending = [] if self._feed.rereads else self._pending
        return {
            "taken": self._taken,
            "task": None if self._task is None else list(self._task),
            "feed": self._feed.known,
            "form": self.form.state(),
            "pending": [_plain(sample) for sample in pending],
        }

    def load_state(self, state: State) -> None:
        """Seeks to a position."""
        self._taken = {source: int(rows) for source, rows in state["taken"].items()}
        self._task = None if state["task"] is None else (int(state["task"][0]), state["task"][1])
        self._feed.known.update(state["feed"])
        self.form.load_state(state["form"])
        self._pending = [self._checked(Sample(*values)) for values in state["pending"]]
        self._arriving, self._ended = None, False

    def _complete(self) -> bool:
        """Whether what is pending holds the whole next batch."""
        if not self.form.fitted(self._pending, self._ended):
            return False
        same = 0
        for sample in self._pending:
            if sample.problem:
                continue
            if sample.task != self._pending[0].task:
                return True
            same += 1
        return same >= self._batch_size

    def _checked(self, sample: Sample) -> Sample:
        """The sample as it is learned, or with what is wrong with it."""
        problem = sample.problem
        if not problem:
            try:
                x, label = self.form.checked(sample.x), label_name(sample.label)
                return replace(sample, x=x, label=label)
            except ValueError as error:
                where = f"'{sample.source}', " if sample.source else ""
                problem = f"{where}sample {sample.row + 1}: {error}"
        if self._on_bad == "stop":
            raise StreamError(f"client {self._client}: {problem}; --on-bad skip leaves it out")
        return replace(sample, problem=problem)

    def _leave_out_bad(self) -> None:
        while self._pending and self._pending[0].problem:
            bad = self._take()
            self._notices.append(Skipped(self._client, bad.source, bad.row, bad.problem))

    def _take(self) -> Sample:
        sample = self._pending.pop(0)
        self._taken[sample.source] = ALL if sample.last else sample.row + 1
        return sample

    def _place(self, label: str) -> int:
        if label not in self._vocabulary:
            place = self._vocabulary.place(label)
            self._notices.append(Appeared(self._client, label, place))
        return self._vocabulary.place(label)


def _plain(sample: Sample) -> list[Any]:
    x = torch.from_numpy(sample.x) if isinstance(sample.x, np.ndarray) else sample.x
    return [x, sample.label, sample.task, sample.source, sample.row, sample.last, sample.problem]
