"""Samples as they arrive, and the feeds that bring them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ofcl.errors import OfclError
from ofcl.state import State


class StreamError(OfclError):
    """A stream failed, or brought something that cannot be used; the learner keeps its state."""


@dataclass(frozen=True)
class Sample:
    """One sample as a feed brings it."""

    x: Any
    label: Any
    task: Any = None  # whatever changes when a task ends; None: nobody says where tasks end
    source: str = ""  # the file that it came from
    row: int = 0  # its place in it; −1: it stands for damage of the file as a whole
    problem: str = ""  # why it cannot be used


@runtime_checkable
class Feed(Protocol):
    """Where the samples of a stream come from."""

    rereads: bool
    """Whether it can be opened again at the samples that were not learned."""

    known: State
    """What it has found out and must not forget between two openings: plain values."""

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """Samples behind those that were taken of each source; []: there is nothing just now."""
