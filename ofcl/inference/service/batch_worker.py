"""One thread that predicts: it joins requests that wait into batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ofcl.bundle.trained_model import Answers
from ofcl.inference.service.replies import Refused

WAIT = 0.002
"""The seconds for which the first request of a batch waits for others."""

Predict = Callable[[Any, bool], Answers]
"""Decoded samples, and whether uncertainty is measured too → answers."""


@dataclass(frozen=True)
class _Job:
    """Samples of one request that wait: an array or a list, and where the answer goes."""

    samples: Any
    measure: bool
    answer: Future[Answers] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class BatchWorker:
    """Predicts the samples of many requests in one thread, in batches.

    Args:
        predict: Predicts samples.
        batch: The samples of a batch, unless a single request has more.
        queue: The samples that may wait.
        count: Called with the number of samples after each batch.
    """

    def __init__(
        self, predict: Predict, batch: int, queue: int, count: Callable[[int], None]
    ) -> None:
        self._predict, self._batch, self._most, self._count = predict, batch, queue, count
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.waiting = 0  # samples
        self._thread = threading.Thread(target=self._work, name="predict", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether it takes samples."""
        return self._thread.is_alive() and not self._closed

    def submit(self, samples: Any, measure: bool) -> Future[Answers]:
        """Puts samples into the queue.

        Args:
            samples: Decoded samples, an array or a list.
            measure: Whether uncertainty is measured too.

        Returns:
            The answers, once they are there.

        Raises:
            Refused: The queue is full, or the service is about to end.
        """
        job = _Job(samples, measure)
        with self._changed:
            if not self.ready:
                raise Refused(503, "the service is about to end", retry=5)
            if self.waiting and self.waiting + len(samples) > self._most:
                raise Refused(503, f"{self.waiting} samples wait already; try again", retry=1)
            self._jobs.append(job)
            self.waiting += len(samples)
            self._changed.notify()
        return job.answer

    def close(self) -> None:
        """Predicts what waits, and ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        """Predicts batch after batch, until it is closed and nothing waits."""
        while jobs := self._next_batch():
            wanted = [job for job in jobs if job.answer.set_running_or_notify_cancel()]
            if wanted:
                self._answer(wanted)

    def _next_batch(self) -> list[_Job]:
        """Waits for requests and takes those of the next batch; none: it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return []
            left = self._jobs[0].since + WAIT - time.monotonic()
            self._changed.wait_for(lambda: self.waiting >= self._batch or self._closed, left)
            first = self._jobs[0]
            taken: list[_Job] = []
            size = 0
            while self._jobs and self._jobs[0].measure == first.measure:
                if taken and size + len(self._jobs[0].samples) > self._batch:
                    break
                taken.append(self._jobs.popleft())
                size += len(taken[-1].samples)
            self.waiting -= size
            return taken

    def _answer(self, jobs: list[_Job]) -> None:
        """Predicts some jobs at once; if that fails, each alone, so that one spoils no other."""
        samples = _join([job.samples for job in jobs])
        try:
            answers = self._predict(samples, jobs[0].measure)
        except Exception as error:  # of any part of the model; the thread must live on
            if len(jobs) == 1:
                jobs[0].answer.set_exception(error)
            else:
                for job in jobs:
                    self._answer([job])
            return
        self._count(len(samples))
        start = 0
        for job in jobs:
            end = start + len(job.samples)
            job.answer.set_result(Answers(*(part[start:end] for part in answers)))
            start = end


def _join(parts: list[Any]) -> Any:
    """Joins the samples of several requests, arrays or lists."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [sample for part in parts for sample in part]
