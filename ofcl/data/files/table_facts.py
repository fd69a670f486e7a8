"""Facts about the columns of a table, from which their meaning is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ofcl.data.files.column_facts import FIRST, ColumnFacts
from ofcl.data.files.whole_table import Table
from ofcl.errors import OfclError


class TableFacts:
    """The names of a table's columns, and facts about their cells.

    Args:
        name: The name of the file, for messages.
        columns: The names of the columns.
        first: Returns the first cells of a column.
        facts: Returns the facts about a column; it is called once for each.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        first: Callable[[str], Sequence[Any]],
        facts: Callable[[str], ColumnFacts],
    ) -> None:
        self.name, self.columns, self.first = name, list(columns), first
        self._make, self._facts = facts, dict[str, ColumnFacts]()

    @classmethod
    def of(cls, table: Table) -> TableFacts:
        """Looks at a table in memory; the facts about a column are collected when asked for.

        Args:
            table: The table.
        """

        def facts(name: str) -> ColumnFacts:
            found = ColumnFacts(name)
            found.add(table.columns[name])
            return found

        return cls(table.name, list(table.columns), lambda name: table.columns[name][:FIRST], facts)

    def facts(self, name: str) -> ColumnFacts:
        """Returns the facts about a column.

        Args:
            name: The name of the column.
        """
        if name not in self._facts:
            self._facts[name] = self._make(name)
        return self._facts[name]

    def column(self, name: str) -> None:
        """Raises an error if there is no such column.

        Args:
            name: The name of the column.
        """
        if name not in self.columns:
            raise OfclError(
                f"'{self.name}' has no column '{name}'; it has {', '.join(self.columns) or 'none'}"
            )
