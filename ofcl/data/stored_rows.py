"""Rows of a table that is larger than the memory: numbers in a file, read when they are needed."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from ofcl.errors import OfclError

BLOCK = 2**26  # bytes that are in memory at once
CPU = torch.device("cpu")


class RowFile:
    """A file of rows of 64-bit numbers. It has no name, so that it ends with the process.

    Args:
        folder: A folder on a disk; it is made if it is missing.
        columns: The numbers of a row.
    """

    def __init__(self, folder: Path, columns: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (kept open)
        self.columns, self.rows = columns, 0

    def append(self, rows: np.ndarray) -> None:
        """Writes rows behind the others.

        Args:
            rows: The rows (n, columns).
        """
        self._file.write(np.ascontiguousarray(rows, dtype=np.float64).tobytes())
        self.rows += len(rows)

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Reads rows.

        Args:
            rows: Their numbers, in any order.
        """
        if not len(rows):
            return np.empty((0, self.columns))
        self._file.flush()
        # No memory map: with each row of one, up to megabytes around it would count as in use.
        different, places = np.unique(rows, return_inverse=True)
        found = np.empty((len(different), self.columns))
        begins = np.flatnonzero(np.diff(different, prepend=different[0] - 2) != 1)
        for begin, end in itertools.pairwise([*begins.tolist(), len(different)]):
            self._fill(found[begin:end], int(different[begin]))
        return found[places]

    def _fill(self, found: np.ndarray, first: int) -> None:
        """Reads rows that follow each other into an array.

        Args:
            found: The array (n, columns), which is changed.
            first: The number of the first row.
        """
        left, offset = memoryview(found.data).cast("B"), first * self.columns * found.itemsize
        while left:
            read = os.preadv(self._file.fileno(), [left], offset)
            if not read:
                raise OfclError("the rows of a large table are gone from the disk; is it full?")
            left, offset = left[read:], offset + read


@dataclass(frozen=True)
class StoredRows:
    """Some rows of a file, in an order: samples of a `Part` that are not in memory.

    Args:
        file: The file.
        rows: The numbers of the rows.
        words: For each column of categories, the word that each number stands for; else empty.
    """

    file: RowFile
    rows: np.ndarray
    words: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: np.ndarray) -> StoredRows:
        return replace(self, rows=self.rows[rows])

    def read(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Reads the numbers (n, columns) of rows; NaN for empty cells.

        Args:
            rows: The places of the rows among these; None: all of them.
        """
        return self.file.read(self.rows if rows is None else self.rows[rows])

    def blocks(self, width: int = 1) -> Iterator[np.ndarray]:
        """Yields the numbers of all rows, a block after the other.

        Args:
            width: How many numbers are made of a row, if these are more than it has.
        """
        step = max(BLOCK // (8 * max(self.file.columns, width)), 1)
        for start in range(0, len(self.rows), step):
            yield self.file.read(self.rows[start : start + step])


@dataclass(frozen=True)
class StoredSamples:
    """Samples (n, d) that are read and encoded when they are asked for.

    It answers as a tensor does to all that streams and tests ask of a dataset's samples.

    Args:
        stored: The rows.
        decode: Turns their numbers into vectors (n, d) of 32 bits.
        width: The numbers of a vector.
        device: The device on which samples are wanted.
    """

    stored: StoredRows
    decode: Callable[[np.ndarray], np.ndarray]
    width: int
    device: torch.device = CPU

    dtype = torch.float32

    @property
    def shape(self) -> torch.Size:
        """The number of samples and the length of one."""
        return torch.Size([len(self.stored), self.width])

    def __len__(self) -> int:
        return len(self.stored)

    def dim(self) -> int:
        """Returns the number of dimensions."""
        return 2

    def __getitem__(self, rows: Any) -> Tensor:
        if isinstance(rows, slice):
            places = np.arange(*rows.indices(len(self)))
        else:
            places = np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)
        vectors = self.decode(self.stored.read(places)).reshape(-1, self.width)
        return torch.from_numpy(vectors).to(self.device)

    def to(self, device: torch.device) -> StoredSamples:
        """Returns the same samples for another device.

        Args:
            device: The device on which samples are wanted.
        """
        return replace(self, device=device)

    def all_finite(self) -> bool:
        """Says whether all numbers of all samples are finite."""
        return all(
            np.isfinite(self.decode(block)).all() for block in self.stored.blocks(self.width)
        )
