"""Samples that have arrived and wait to be learned."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from ofcl.data.live.sample import Sample


class PendingSamples:
    """A queue of samples that have arrived and are in no batch yet.

    Some of them may be unusable, but never the first one: an unusable sample is skipped as soon as
    it is the first.

    Args:
        on_skip: Called with each unusable sample that is skipped.

    Attributes:
        samples: The samples in the order of their arrival.
        taken: For each source, the number of its rows that have left the queue.
    """

    def __init__(self, on_skip: Callable[[Sample], None]) -> None:
        self.samples: list[Sample] = []
        self.taken: dict[str, int] = {}
        self._on_skip = on_skip
        # Counted on arrival: `holds_batch` is called after every sample.
        self._usable_of_task = 0  # at the head, up to the first sample of another task
        self._task_ends = False  # whether there is a sample of another task

    def append(self, sample: Sample) -> None:
        """Adds a sample at the end of the queue.

        Args:
            sample: The sample, which may be unusable.
        """
        self.samples.append(sample)
        if sample.problem:
            self._skip_unusable()
        elif sample.task != self.samples[0].task:
            self._task_ends = True
        elif not self._task_ends:
            self._usable_of_task += 1

    def replace(self, samples: Iterable[Sample]) -> None:
        """Replaces all samples in the queue by others.

        Args:
            samples: The new samples, in the order of their arrival.
        """
        self.samples, self._usable_of_task, self._task_ends = [], 0, False
        for sample in samples:
            self.append(sample)

    def holds_batch(self, size: int) -> bool:
        """Says whether the next batch is complete: it is full, or the next task has begun.

        Args:
            size: The number of samples in a full batch.
        """
        return self._task_ends or self._usable_of_task >= size

    def next_batch(self, size: int) -> list[Sample]:
        """Lists the usable samples of the next batch so far; they stay in the queue.

        Args:
            size: The number of samples in a full batch.
        """
        usable = (sample for sample in self.samples if not sample.problem)
        first = list(itertools.islice(usable, size))
        return [sample for sample in first if sample.task == first[0].task]

    def take_batch(self, size: int) -> list[Sample]:
        """Removes the next batch from the queue and returns its usable samples, all of one task.

        Args:
            size: The number of samples in a full batch.
        """
        task = self.samples[0].task
        batch: list[Sample] = []
        while self.samples and len(batch) < size and self.samples[0].task == task:
            batch.append(self._take())
            self._skip_unusable()
        self.replace(self.samples)
        return batch

    def _skip_unusable(self) -> None:
        """Removes unusable samples from the head of the queue, and calls `on_skip` with each."""
        while self.samples and self.samples[0].problem:
            self._on_skip(self._take())

    def _take(self) -> Sample:
        """Removes the first sample from the queue and counts its row as taken."""
        sample = self.samples.pop(0)
        self.taken[sample.source] = sample.row + 1
        return sample
