"""Options of reading data: where they are, which columns to use, how to treat damaged samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from ofcl.data.files.column_codes import ColumnCode
from ofcl.errors import OfclError

T = TypeVar("T")
Item = TypeVar("Item", covariant=True)

OnBad = Literal["stop", "skip"]
"""The treatment of a sample that cannot be used.

    stop    an error
    skip    the sample is left out and counted
"""

Features = Literal["standardised", "unit"]
"""The scaling of the vectors that a pretrained network makes of images.

    standardised    each number by mean and deviation, then all divided by √d
    unit            of length 1, as the network gives them
"""


class Counted(Protocol[Item]):
    """Items whose number is known, or nearly, before they are there: a list, for example."""

    def __len__(self) -> int:
        """Returns the number of the items."""

    def __iter__(self) -> Iterator[Item]:
        """Yields the items."""


class Progress(Protocol):
    """A function that shows the progress of a slow loop; the command line draws a bar."""

    def __call__(self, items: Counted[T], what: str) -> Iterable[T]:
        """Yields the items in order and shows how many of them are done.

        Args:
            items: The items of the loop.
            what: The work that the loop does, for the user.
        """


def no_progress(items: Counted[T], what: str) -> Iterable[T]:
    """Yields the items in order and shows nothing.

    Args:
        items: The items of the loop.
        what: Not used; every `Progress` takes it.
    """
    return items


def data_root() -> Path:
    """Returns the folder of the named datasets: `OFCL_DATA`, else a folder in the user's cache."""
    if folder := os.environ.get("OFCL_DATA"):
        return Path(folder).expanduser()
    import pooch

    return Path(pooch.os_cache("ofcl"))


@dataclass(frozen=True)
class Subset:
    """The part of a dataset that is used: its first rows, and some samples of each class in them.

    Args:
        train_head: The number of rows at the beginning of the train part; None: all.
        test_head: The number of rows at the beginning of the test part; None: all.
        train_per_class: The number of train samples of each class; None: all.
        test_per_class: The number of test samples of each class; None: all.
    """

    train_head: int | None = None
    test_head: int | None = None
    train_per_class: int | None = None
    test_per_class: int | None = None


@dataclass(frozen=True)
class Reading:
    """Options of reading data, for `load_dataset` and the feeds; a run has them in its settings.

    Args:
        root: The folder of the named datasets and of the cached embeddings.
        label: The column of the labels; None: found by its name.
        text: The column of the texts; None: found by its name and values.
        columns: The columns to learn from; empty: all columns but the label.
        drop: Columns that are left out.
        image_size: The side in pixels to which images are resized; None: they keep their size.
        embedder: The model that turns texts, or images, into vectors: its short name, its name on
            the hub, or its folder; that of texts leaves images as they are.
        features: How vectors of images are scaled: `standardised` by the train samples, or `unit`,
            of length 1.
        tokens: The number of tokens of a text that becomes token ids (`embedder = tokens:NAME`).
        weights: The folder of the network whose tokeniser makes them; None: its package, or the
            hub.
        test_share: The share of each class that is split off for testing, where the data have no
            test part.
        window: The number of rows from which the columns of a table are standardised.
        subset: The part of the dataset that is used.
        on_bad: `stop` refuses samples that cannot be used; `skip` leaves them out.
        track: Shows the progress of slow steps.
        standardisation: The values that are subtracted from the numbers of a table's rows, or of
            images' vectors, and those by which they are then divided; None: they are measured.
        codes: With a standardisation: how the cells of each column become numbers; empty: each cell
            is one number.
        white: The largest value in grey image files with more than 8 bits that came before; 0: none
            came.
        fewest_classes: The number of classes that the train samples must have at least.
        in_memory: The size in bytes up to which a CSV file is read as a whole; a larger one is read
            in pieces, and its rows stay on the disk.
    """

    root: Path = field(default_factory=data_root)
    label: str | None = None
    text: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    image_size: int | None = None
    embedder: str = "e5-small-v2"
    features: Features = "standardised"
    tokens: int = 128
    weights: str | None = None
    test_share: float = 0.2
    window: int = 200
    subset: Subset = Subset()
    on_bad: OnBad = "stop"
    track: Progress = no_progress
    standardisation: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    codes: tuple[ColumnCode, ...] = ()
    white: float = 0.0
    fewest_classes: int = 2
    in_memory: int = 64_000_000


class Damage:
    """Collects reports of samples that cannot be used.

    Args:
        on_bad: `stop`: a report raises an error; `skip`: it is counted, and the sample is left out.

    Attributes:
        problems: The place and kind of each damage.
        lines: The line in the file of each problem, counted from 1; 0: not in a text file.

    >>> damage = Damage("skip")
    >>> damage.report("line 3: column 'age' is empty")
    >>> damage.notes("mine.csv")
    ("mine.csv: 1 left out (line 3: column 'age' is empty)",)
    """

    def __init__(self, on_bad: OnBad = "stop") -> None:
        self._on_bad = on_bad
        self.problems: list[str] = []
        self.lines: list[int] = []  # the line in the file of each problem; 0: not in a text file

    def report(self, problem: str, line: int = 0) -> None:
        """Raises an error about a sample that cannot be used, or counts it.

        Args:
            problem: The place and kind of the damage, for the user.
            line: The line in the file, counted from 1; 0: not in a text file.

        Raises:
            OfclError: If `on_bad` is `stop`.
        """
        if self._on_bad == "stop":
            raise OfclError(f"{problem}; mend it, or leave such samples out with --on-bad skip")
        self.problems.append(problem)
        self.lines.append(line)

    def notes(self, name: str) -> tuple[str, ...]:
        """Returns one line about the samples that were left out; () if none was.

        Args:
            name: The name of the data, for the line.
        """
        if not self.problems:
            return ()
        first = f"{'first: ' if len(self.problems) > 1 else ''}{self.problems[0]}"
        return (f"{name}: {len(self.problems)} left out ({first})",)
