"""How data are read: where they lie, which columns count, what becomes of what is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from ofcl.errors import OfclError

T = TypeVar("T")

OnBad = Literal["stop", "skip"]
"""What becomes of a sample that cannot be used: an error, or it is left out and counted."""


class Progress(Protocol):
    """Goes through items that take their time; the command line's shows how far it is."""

    def __call__(self, items: Sequence[T], what: str) -> Iterable[T]:
        """The items, one after the other."""


def no_progress(items: Sequence[T], what: str) -> Iterable[T]:
    """Goes through items and shows nothing."""
    return items


def data_root() -> Path:
    """The folder of the named datasets: `OFCL_DATA`, or the user's cache."""
    if named := os.environ.get("OFCL_DATA"):
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("ofcl"))


@dataclass(frozen=True)
class Subset:
    """The part of a dataset that is used: the first rows, then so many of each class."""

    train_head: int | None = None
    test_head: int | None = None
    train_per_class: int | None = None
    test_per_class: int | None = None


@dataclass(frozen=True)
class Reading:
    """Everything that says how data are read; a run's comes from its settings."""

    root: Path = field(default_factory=data_root)
    label: str | None = None  # the column of the labels
    text: str | None = None  # the column of the texts
    columns: tuple[str, ...] = ()  # the columns of numbers; none named: all that are left
    image_size: int | None = None  # the side of images, in pixels
    embedder: str = "e5-small-v2"
    test_share: float = 0.2  # held out for testing where the data have no test part
    window: int = 200  # rows from which the columns of a table are standardised
    subset: Subset = Subset()
    on_bad: OnBad = "stop"
    track: Progress = no_progress


class Damage:
    """Collects what cannot be used: refuses it at once, or counts it.

    >>> damage = Damage("skip")
    >>> damage.report("line 3: column 'age' is empty")
    >>> damage.notes("mine.csv")
    ("mine.csv: 1 left out (line 3: column 'age' is empty)",)
    """

    def __init__(self, on_bad: OnBad = "stop") -> None:
        self._on_bad = on_bad
        self.problems: list[str] = []
        self.lines: list[int] = []  # of a file, where they were; 0: in none

    def report(self, problem: str, line: int = 0) -> None:
        """Something cannot be used."""
        if self._on_bad == "stop":
            raise OfclError(f"{problem}; mend it, or leave such samples out with --on-bad skip")
        self.problems.append(problem)
        self.lines.append(line)

    def notes(self, name: str) -> tuple[str, ...]:
        """A line about what was left out, if anything was."""
        if not self.problems:
            return ()
        first = f"{'first: ' if len(self.problems) > 1 else ''}{self.problems[0]}"
        return (f"{name}: {len(self.problems)} left out ({first})",)
