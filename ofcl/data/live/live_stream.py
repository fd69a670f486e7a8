"""Streams that have no end: samples as they arrive, in mini-batches, with classes nobody announced.

A `Feed` brings samples: from an iterator, a watched folder, standard input (`feeds.py`). A
`LiveStream` makes mini-batches of them. Every sample has a source (a file, or "" where there is
only one) and a row in it; `taken` says how many rows of each source have been handed out, and what
was handed out counts as learned. A feed that can be opened again is opened behind those; of one
that cannot, the samples that came but were not handed out are kept in the stream's state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ofcl.data.files.labels import label_name
from ofcl.data.live.form import Form
from ofcl.data.live.sample import Feed, Sample, StreamError
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.options import OnBad
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.events import Appeared, Event, Skipped
from ofcl.state import State


class LiveStream:
    """The mini-batches of a feed. A batch is smaller where a task or the stream ends.

    `_pending` are samples that have come and were not handed out. Among them may be some that
    cannot be used, but never at the head: there they are left out at once.
    """

    def __init__(
        self,
        client: int,
        feed: Feed,
        form: Form,
        vocabulary: Vocabulary,
        batch_size: int,
        on_bad: OnBad = "stop",
    ) -> None:
        self.feed, self.form = feed, form
        self._client, self._vocabulary = client, vocabulary
        self._batch_size, self._on_bad = batch_size, on_bad
        self._arriving: Iterator[list[Sample]] | None = None
        self._come: list[Sample] = []  # to be checked; the first one could not be used
        self._pending: list[Sample] = []
        self._alike = 0  # usable samples of the task at the head of `_pending`
        self._cut = False  # whether one of another task follows them
        self._taken: dict[str, int] = {}
        self._ended = False
        self._task: tuple[int, str | None] | None = None  # number and name of the last batch's
        self._notices: list[Event] = []

    def ready(self) -> bool:
        """Takes in what has arrived; says whether the next batch, or the end, is there."""
        return self._arrived() and self._admitted()

    def _arrived(self) -> bool:
        """Takes in what has arrived; says whether the next batch is whole, or the stream ended.

        After an error, a feed that can be opened again is, behind what was taken: perhaps it has
        been mended. Of any other, what cannot be used stays in the way.
        """
        try:
            return self._taken_in()
        except Exception as error:  # of the user's own iterator, a disk, a network
            if self.feed.rereads:
                self._arriving, self._come, self._pending = None, [], []
                self._count()
            if isinstance(error, StreamError):
                raise
            kind = "" if isinstance(error, OfclError) else f"{type(error).__name__}: "
            raise StreamError(f"client {self._client}: its stream failed: {kind}{error}") from error

    def _taken_in(self) -> bool:
        self._check()
        while not self._complete():
            if self._arriving is None:
                self._arriving = self._feed_opened()
            try:
                samples = next(self._arriving, None)
            except Exception:
                self._arriving = None  # what has failed is over
                raise
            if samples is None:
                self._ended = True
                return True
            if not samples:
                return False
            self._come += samples
            self._check()
        return True

    def _check(self) -> None:
        checked = 0
        try:
            for sample in self._come:
                self._append(self._checked(sample))
                checked += 1
        finally:
            del self._come[:checked]

    def _admitted(self) -> bool:
        """Whether all samples of the next batch have labels with a place."""
        usable = (sample for sample in self._pending if not sample.problem)
        coming = list(itertools.islice(usable, self._batch_size))
        named = [self._vocabulary.admits(s.label) for s in coming if s.task == coming[0].task]
        return all(named)

    def _feed_opened(self) -> Iterator[list[Sample]]:
        # In a generator of its own, so that what opening raises is met where samples are taken in.
        yield from self.feed.open(self._taken)

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
            self._arrived()
        task = self.next_task()
        if task is None:
            raise StopIteration
        name = self._pending[0].task
        good: list[Sample] = []
        while self._pending and len(good) < self._batch_size and self._pending[0].task == name:
            good.append(self._take())
            self._leave_out_bad()
        self._task = task, name
        self._count()
        y = torch.tensor([self._place(sample.label) for sample in good])
        x = self.form.tensor([sample.x for sample in good])
        return Batch(x, y, None if name is None else task)

    def belong_to(self, client: int, vocabulary: Vocabulary, batch_size: int) -> None:
        """Hands a stream that has been looked into to the client that learns from it."""
        self._client, self._vocabulary, self._batch_size = client, vocabulary, batch_size

    def notices(self) -> list[Event]:
        """What there is to tell since it was last asked: new classes, samples left out."""
        notices, self._notices = self._notices, []
        return notices

    def state(self) -> State:
        """The position, for a checkpoint."""
        pending = [] if self.feed.rereads else self._pending
        return {
            "taken": self._taken,
            "task": None if self._task is None else list(self._task),
            "feed": self.feed.known,
            "form": self.form.state(),
            "pending": [_plain(sample) for sample in pending],
        }

    def load_state(self, state: State) -> None:
        """Seeks to a position."""
        self._taken = {source: int(rows) for source, rows in state["taken"].items()}
        self._task = None if state["task"] is None else (int(state["task"][0]), state["task"][1])
        self.feed.known.update(state["feed"])
        self.form.load_state(state["form"])
        self._come, self._pending = [], []
        # What was kept of a pipe is read again of a file.
        for values in [] if self.feed.rereads else state["pending"]:
            sample = Sample(*values)
            self._pending.append(sample if sample.problem else self._checked(sample))
        self._count()
        self._arriving, self._ended = None, False

    def _complete(self) -> bool:
        """Whether what is pending holds the whole next batch."""
        if not self.form.fit(self._pending, self._ended):
            return False
        return self._cut or self._alike >= self._batch_size

    def _append(self, sample: Sample) -> None:
        self._pending.append(sample)
        if sample.problem:
            self._leave_out_bad()
        elif sample.task != self._pending[0].task:
            self._cut = True
        elif not self._cut:
            self._alike += 1

    def _count(self) -> None:
        """Counts anew how much of what is pending makes the next batch."""
        pending, self._pending, self._alike, self._cut = self._pending, [], 0, False
        for sample in pending:
            self._append(sample)

    def _checked(self, sample: Sample) -> Sample:
        """The sample as it is learned, or what is wrong with it."""
        problem = sample.problem
        if not problem:
            try:
                return replace(
                    sample,
                    x=self.form.checked(sample.x),
                    label=label_name(sample.label),
                    task=None if sample.task is None else label_name(sample.task),
                )
            except ValueError as error:
                where = f"'{sample.source}', " if sample.source else ""
                problem = f"{where}sample {sample.row + 1}: {error}"
        if self._on_bad == "stop":
            raise StreamError(f"client {self._client}: {problem}; --on-bad skip leaves it out")
        return Sample(None, None, None, sample.source, sample.row, problem)

    def _leave_out_bad(self) -> None:
        while self._pending and self._pending[0].problem:
            bad = self._take()
            self._notices.append(Skipped(self._client, bad.source, bad.row, bad.problem))

    def _take(self) -> Sample:
        sample = self._pending.pop(0)
        self._taken[sample.source] = sample.row + 1
        return sample

    def _place(self, label: str) -> int:
        if label not in self._vocabulary:
            place = self._vocabulary.place(label)
            self._notices.append(Appeared(self._client, label, place))
        return self._vocabulary.place(label)


def _plain(sample: Sample) -> list[Any]:
    x = torch.from_numpy(sample.x) if isinstance(sample.x, np.ndarray) else sample.x
    return [x, sample.label, sample.task, sample.source, sample.row, sample.problem]
