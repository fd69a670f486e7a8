"""The code of a table whose columns are not all numbers: from cells to a network's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.standardisation import Standardisation
from ofcl.data.stored_rows import StoredRows

Row = Sequence[Any]
"""The cells of a row, as the codes of their columns have read them."""


@dataclass(frozen=True)
class TableCode:
    """Turns rows of cells into vectors.

    Args:
        codes: The code of each column.
        standardise: Standardises the numbers that the codes give; marks of gaps and places of
            categories stay as they are.
    """

    codes: tuple[ColumnCode, ...]
    standardise: Standardisation

    @classmethod
    def of(cls, codes: Sequence[ColumnCode], rows: Sequence[Row], window: int) -> TableCode:
        """Fits codes and standardisation to the train rows.

        Args:
            codes: The code of each column, not fitted yet.
            rows: The train rows.
            window: From how many of them, spread over all, numbers are standardised.
        """
        fitted = fit_codes(codes, rows)
        spread = np.linspace(0, len(rows) - 1, min(window, len(rows))).astype(int)
        return cls._standardised(fitted, encode_rows(fitted, [rows[row] for row in spread]))

    @classmethod
    def of_stored(cls, codes: Sequence[ColumnCode], rows: StoredRows, window: int) -> TableCode:
        """Fits codes and standardisation to train rows that are on the disk.

        Args:
            codes: The code of each column, not fitted yet.
            rows: The train rows.
            window: From how many of them, spread over all, numbers are standardised.
        """
        fitted = fit_codes(codes, rows)
        spread = np.linspace(0, len(rows) - 1, min(window, len(rows))).astype(int)
        places = places_of_words(fitted, rows.words)
        return cls._standardised(fitted, encode_stored(fitted, places, rows.read(spread)))

    @classmethod
    def _standardised(cls, fitted: tuple[ColumnCode, ...], window: np.ndarray) -> TableCode:
        """Standardises numbers and dates by a window of encoded rows; the rest stays as it is."""
        found = Standardisation.of(window)
        scaled = np.concatenate([code.scaled() for code in fitted])
        plain = np.where(scaled, found.mean, 0.0), np.where(scaled, found.scale, 1.0)
        return cls(fitted, Standardisation(*plain))

    def __call__(self, rows: Sequence[Row]) -> np.ndarray:
        """Turns rows into vectors (n, d) of 32 bits.

        Args:
            rows: The rows.
        """
        return self.standardise(encode_rows(self.codes, rows))


def fit_codes(
    codes: Sequence[ColumnCode], rows: Sequence[Row] | np.ndarray | StoredRows
) -> tuple[ColumnCode, ...]:
    """Gives codes the categories, gaps and fills that the train rows show.

    Args:
        codes: The code of each column, not fitted yet.
        rows: The train rows; they may be on the disk.
    """
    if not isinstance(rows, StoredRows):
        columns = zip(*rows, strict=True)
        return tuple(code.fitted(cells) for code, cells in zip(codes, columns, strict=True))
    totals = [_Total(len(words)) for words in rows.words]
    for block in rows.blocks():
        for total, column in zip(totals, block.T, strict=True):
            total.add(np.ascontiguousarray(column))
    return tuple(map(_Total.fit, totals, codes, rows.words))


def encode_rows(codes: Sequence[ColumnCode], rows: Sequence[Row]) -> np.ndarray:
    """Turns rows into numbers (n, d) that are not standardised.

    Args:
        codes: The fitted codes.
        rows: The rows.
    """
    columns = zip(*rows, strict=True) if rows else [()] * len(codes)
    parts = [code.encode(cells) for code, cells in zip(codes, columns, strict=True)]
    return np.concatenate(parts, axis=1)


class _Total:
    """Sums over a stored column: the present cells, and how often each word comes.

    Args:
        words: The number of different words in the column.
    """

    def __init__(self, words: int) -> None:
        self.cells = self.present = 0
        self.sum = 0.0
        self.counts = np.zeros(words, dtype=np.int64)

    def add(self, cells: np.ndarray) -> None:
        """Takes in cells of the column, NaN for empty ones."""
        present = cells[~np.isnan(cells)]
        self.cells, self.present = self.cells + len(cells), self.present + len(present)
        if len(self.counts):
            self.counts += np.bincount(present.astype(int), minlength=len(self.counts))
        else:
            self.sum += float(present.sum())

    def fit(self, code: ColumnCode, words: Sequence[str]) -> ColumnCode:
        """Returns the code with the gaps, the fill or the categories that these sums show."""
        gaps = self.present < self.cells
        if code.kind == "category":
            counts = zip(words, self.counts.tolist(), strict=True)
            return code.with_categories({word: n for word, n in counts if n}, gaps)
        return code.with_fill(self.sum / self.present if self.present else 0.0, gaps)


def places_of_words(
    codes: Sequence[ColumnCode], words: Sequence[Sequence[str]]
) -> list[np.ndarray]:
    """Returns for each column the place of each word among the code's categories.

    Args:
        codes: The fitted codes.
        words: The words of each stored column; those without a place share the last one.
    """
    places = []
    for code, known in zip(codes, words, strict=True):
        place = {name: n for n, name in enumerate(code.categories)}
        places.append(np.array([place.get(word, len(place)) for word in known], dtype=float))
    return places


def encode_stored(
    codes: Sequence[ColumnCode], places: Sequence[np.ndarray], rows: np.ndarray
) -> np.ndarray:
    """Turns stored rows into numbers (n, d) that are not standardised.

    Args:
        codes: The fitted codes.
        places: For each column of categories, the place of each word (`places_of_words`).
        rows: The stored numbers (n, columns), NaN for empty cells.
    """
    parts = []
    for code, place, column in zip(codes, places, rows.T, strict=True):
        if code.kind == "category":
            present = ~np.isnan(column)
            column = np.where(present, column, 0.0)
            looked_up = place[column.astype(int)] if len(place) else column
            column = np.where(present, looked_up, np.nan)
        parts.append(code.encode_array(column))
    return np.concatenate(parts, axis=1)
