"""A table in memory: columns of values, with the line in its file of every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ofcl.errors import OfclError


@dataclass(frozen=True)
class Table:
    """A table: columns of one length.

    Args:
        name: The name of the file, for messages.
        columns: The values of each column, by its name.
        lines: The line in the file of each row, counted from 1.
    """

    name: str
    columns: dict[str, list[Any]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[Any]:
        """Returns the values of a column.

        Args:
            name: The name of the column.

        Raises:
            OfclError: There is no such column.
        """
        if name not in self.columns:
            raise OfclError(
                f"'{self.name}' has no column '{name}'; it has {', '.join(self.columns) or 'none'}"
            )
        return self.columns[name]
