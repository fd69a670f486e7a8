"""A stream without an end: mini-batches of samples as they arrive, also of new classes.

A `Feed` brings samples: from an iterator, a watched folder, standard input. A `LiveStream` makes
mini-batches of them. Every sample has a source (a file, or "" if there is only one) and a row in
it. The stream counts how many rows of each source were in its batches; these count as learned. If a
feed can be opened again, it begins after the learned rows. If it cannot, samples that have arrived
and are in no batch yet are kept in the stream's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ofcl.data.files.labels import label_name
from ofcl.data.live.form import Form
from ofcl.data.live.live_agreement import Agreement, Row
from ofcl.data.live.pending import PendingSamples
from ofcl.data.live.sample import Feed, Sample, StreamError
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.options import OnBad
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.events import Appeared, Event, Halted, Skipped
from ofcl.state import State


class LiveStream:
    """The mini-batches of the samples that a feed brings.

    A batch is smaller than `batch_size` if its task or the stream ends.

    Args:
        client: The number of the client, for events and messages.
        feed: The source of the samples.
        form: The form that all samples must have, and how they become a model's input.
        vocabulary: The labels of the run with their places; new labels are added.
        batch_size: The number of samples in a batch.
        on_bad: `stop` raises an error at a sample that cannot be used; `skip` leaves it out.
        waits: Whether a feed that can be reread is looked at again after an error, instead of
            raising it: perhaps its data have been mended.

    Attributes:
        damage: The error that the stream waits to see mended; None: there is none.
    """

    def __init__(
        self,
        client: int,
        feed: Feed,
        form: Form,
        vocabulary: Vocabulary,
        batch_size: int,
        on_bad: OnBad = "stop",
        waits: bool = False,
    ) -> None:
        self.feed, self.form = feed, form
        self.damage: StreamError | None = None
        self._waits = waits and feed.rereads
        self._client, self._vocabulary = client, vocabulary
        self._batch_size, self._on_bad = batch_size, on_bad
        self._arrivals: Iterator[list[Sample]] | None = None
        # Not empty only after an error: then its first sample is the one that cannot be used.
        self._unchecked: list[Sample] = []
        self._pending = PendingSamples(self._skipped)
        self._ended = False
        self._task: tuple[int, str | None] | None = None  # number and name of the last batch's
        self._first_task = 0  # the number of the first batch's
        self._notices: list[Event] = []

    def ready(self) -> bool:
        """Takes in the samples that have arrived, and says whether `__next__` need not wait.

        True if the next batch is complete and its labels have places, or if the stream has ended.
        """
        try:
            ready = self._take_in() and self._batch_has_places()
        except StreamError as error:
            if not self._waits:
                raise
            self._halt(error)
            return False
        if ready:
            self.damage = None
        return ready

    def _halt(self, error: StreamError) -> None:
        """Notes that the stream waits for its data to be mended; an event says so once."""
        if str(error) != str(self.damage):
            self._notices.append(Halted(self._client, str(error)))
        self.damage = error

    def has_first_samples(self) -> bool:
        """Takes in samples until there are enough for an agreement, and says whether there are.

        One is enough if samples need no agreement. True also if the stream has ended, or its data
        are damaged: nobody waits for these.
        """
        try:
            there = self._take_in(lambda: self.form.window_is_full(self._pending.samples))
        except StreamError as error:
            if not self._waits:
                raise
            self._halt(error)
            return True
        if there:
            self.damage = None
        return there

    def first_samples(self) -> list[Any]:
        """Returns the first samples that have arrived, from which an agreement is made."""
        return self.form.window(self._pending.samples)

    def take(self, agreement: Agreement) -> None:
        """Takes over what has been agreed on; samples that have arrived are checked again by it.

        Args:
            agreement: How rows and vectors become a model's input.
        """
        self.form.take(agreement)
        if agreement.columns and "columns" in self.feed.known:
            self.feed.known["columns"] = agreement.columns
        self._unchecked = [*self._pending.samples, *self._unchecked]
        self._pending.replace([])

    def next_task(self) -> int | None:
        """Returns the task of the next batch; None when the stream has ended."""
        if not self._pending.samples:
            return None
        if self._task is None:
            return self._first_task
        number, name = self._task
        return number if self._pending.samples[0].task == name else number + 1

    def __next__(self) -> Batch:
        while not self._batch_is_complete() and not self._ended:
            self._take_in()
        task = self.next_task()
        if task is None:
            raise StopIteration
        samples = self._pending.take_batch(self._batch_size)
        name = samples[0].task
        self._task = task, name
        y = torch.tensor([self._place(sample.label) for sample in samples])
        x = self.form.to_tensor([sample.x for sample in samples])
        return Batch(x, y, None if name is None else task)

    def hand_to(self, client: int, vocabulary: Vocabulary, batch_size: int) -> None:
        """Makes this the stream of another client.

        For a stream whose first samples were looked at before the client's number was known.

        Args:
            client: The number of the client that learns from the stream.
            vocabulary: The labels of the run that the client takes part in.
            batch_size: The number of samples in a batch.
        """
        self._client, self._vocabulary, self._batch_size = client, vocabulary, batch_size

    def notices(self) -> list[Event]:
        """Returns the events since the last call: new classes, samples left out; often none."""
        notices, self._notices = self._notices, []
        return notices

    def state(self) -> State:
        """Returns the position in the stream, for a checkpoint."""
        pending = [] if self.feed.rereads else self._pending.samples
        return {
            "taken": self._pending.taken,
            "task": None if self._task is None else list(self._task),
            "first_task": self._first_task,
            "feed": self.feed.known,
            "form": self.form.state(),
            "pending": [_plain(sample) for sample in pending],
        }

    def load_state(self, state: State) -> None:
        """Goes to a position in the stream.

        Args:
            state: The position that `state` returned.
        """
        self._pending.taken = {source: int(rows) for source, rows in state["taken"].items()}
        self._task = None if state["task"] is None else (int(state["task"][0]), state["task"][1])
        self._first_task = int(state.get("first_task", 0))  # earlier versions have none
        self.feed.known.update(state["feed"])
        self.form.load_state(state["form"])
        # Samples that were kept of a pipe come again if the feed is a file now.
        kept = [] if self.feed.rereads else [_sample(values) for values in state["pending"]]
        self._unchecked = []
        self._pending.replace([s if s.problem else self._checked(s) for s in kept])
        self._arrivals, self._ended = None, False

    def _take_in(self, enough: Callable[[], bool] | None = None) -> bool:
        """Takes in samples that have arrived, and returns what `_collect` returns.

        If the feed fails, it is opened again by the next call. A feed that can be reread then
        begins after the samples that were learned: perhaps its data have been mended. With any
        other feed, a sample that cannot be used raises the same error again.

        Raises:
            StreamError: The feed fails, or a sample cannot be used and `on_bad` is `stop`.
        """
        try:
            return self._collect(enough or self._batch_is_complete)
        except Exception as error:  # of the user's own iterator, a disk, a network
            if self.feed.rereads:
                self._arrivals, self._unchecked = None, []
                self._pending.replace([])
            if isinstance(error, StreamError):
                raise
            kind = "" if isinstance(error, OfclError) else f"{type(error).__name__}: "
            raise StreamError(f"client {self._client}: its stream failed: {kind}{error}") from error

    def _collect(self, enough: Callable[[], bool]) -> bool:
        """Takes samples from the feed until there are enough, or no more have arrived.

        Args:
            enough: Says whether there are: whether the next batch is complete, for example.

        Returns:
            Whether there are enough, or the stream has ended; False: more must arrive.
        """
        self._check()
        while not enough():
            if self._arrivals is None:
                self._arrivals = self._opened_feed()
            try:
                samples = next(self._arrivals, None)
            except Exception:
                self._arrivals = None  # an iterator that has failed is over
                raise
            if samples is None:
                self._ended = True
                return True
            if not samples:
                return False
            self._unchecked += samples
            self._check()
        return True

    def _opened_feed(self) -> Iterator[list[Sample]]:
        """Opens the feed after the samples that were learned."""
        # A generator, so that an error in opening the feed is raised by the first `next`.
        yield from self.feed.open(self._pending.taken)

    def _check(self) -> None:
        """Checks the samples that have arrived and appends them to the pending ones."""
        checked = 0
        try:
            for sample in self._unchecked:
                self._pending.append(self._checked(sample))
                checked += 1
        finally:
            del self._unchecked[:checked]

    def _checked(self, sample: Sample) -> Sample:
        """Brings a sample into the form that is learned.

        Returns:
            The sample; if it cannot be used, one without content that says why.

        Raises:
            StreamError: The sample cannot be used, and `on_bad` is `stop`.
        """
        problem = sample.problem
        if not problem:
            try:
                return replace(
                    sample,
                    x=self.form.check(sample.x),
                    label=label_name(sample.label),
                    task=None if sample.task is None else label_name(sample.task),
                )
            except ValueError as error:
                where = f"'{sample.source}', " if sample.source else ""
                place = f"{where}sample {sample.row + 1}"
                place = sample.x.where if isinstance(sample.x, Row) else place
                problem = f"{place}: {error}"
        if self._on_bad == "stop":
            raise StreamError(f"client {self._client}: {problem}; --on-bad skip leaves it out")
        return Sample(None, None, None, sample.source, sample.row, problem)

    def _batch_is_complete(self) -> bool:
        """Says whether the next batch is complete and can be turned into tensors."""
        if not self.form.fit(self._pending.samples, self._ended):
            return False
        return self._pending.holds_batch(self._batch_size)

    def _batch_has_places(self) -> bool:
        """Says whether all labels of the next batch have places; requests the missing places."""
        batch = self._pending.next_batch(self._batch_size)
        have_places = [self._vocabulary.admits(sample.label) for sample in batch]
        return all(have_places)

    def _skipped(self, sample: Sample) -> None:
        """Notes the event that a sample was left out, for the next call of `notices`."""
        self._notices.append(Skipped(self._client, sample.source, sample.row, sample.problem))

    def _place(self, label: str) -> int:
        """Returns the class of a label; a new label gets the next one, and an event notes it."""
        if label not in self._vocabulary:
            place = self._vocabulary.place(label)
            self._notices.append(Appeared(self._client, label, place))
        return self._vocabulary.place(label)


def _plain(sample: Sample) -> list[Any]:
    """Turns a sample into a list of its fields, with x as a tensor or text, for a checkpoint."""
    x = torch.from_numpy(sample.x) if isinstance(sample.x, np.ndarray) else sample.x
    if isinstance(x, Row):
        x = {"cells": dict(x.cells), "where": x.where}
    return [x, sample.label, sample.task, sample.source, sample.row, sample.problem]


def _sample(values: list[Any]) -> Sample:
    """Makes a sample of the list that `_plain` has made."""
    x, *rest = values
    return Sample(Row(**x) if isinstance(x, dict) else x, *rest)
