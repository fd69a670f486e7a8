"""Samples as they arrive, and the protocol of the feeds that bring them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ofcl.errors import OfclError
from ofcl.state import State


class StreamError(OfclError):
    """An error of a stream: it failed, or a sample cannot be used. The client keeps its state."""


@dataclass(frozen=True)
class Sample:
    """One sample as a feed brings it.

    Args:
        x: The sample: numbers, an image or a text.
        label: Its label, a word or a number.
        task: A value that changes when a task ends; None: the stream does not say where tasks end.
        source: The file that it came from; "" if the feed has only one source.
        row: Its row in the source, counted from 0; −1: the file as a whole is damaged.
        problem: The reason why it cannot be used; "" if it can.
    """

    x: Any
    label: Any
    task: Any = None
    source: str = ""
    row: int = 0
    problem: str = ""


def unusable(source: str, row: int, problem: str) -> Sample:
    """Makes a sample without content that says why it cannot be used.

    Args:
        source: The file that it came from.
        row: Its row in the source, counted from 0; −1: the file as a whole is damaged.
        problem: The reason, for the user.
    """
    return Sample(None, None, None, source, row, problem)


@runtime_checkable
class Feed(Protocol):
    """A source of the samples of a stream.

    Attributes:
        rereads: Whether the feed can be opened again, from the first sample that was not learned.
        known: Facts that the feed keeps between two openings: plain values, saved in checkpoints.
    """

    rereads: bool
    known: State

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """Yields lists of samples as they arrive, and an empty list while none has arrived.

        Args:
            taken: For each source, the number of its rows that were learned already. A feed that
                rereads begins after them; any other continues with its next sample.
        """
