"""The meaning of a table's columns: which is the label, which the text, which are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ofcl.data.files.cells import (
    has_decimal_comma,
    is_number,
    read_label,
    read_number,
    read_number_list,
    read_text,
)
from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.files.column_facts import FEWEST_ROWS, FIRST, ColumnFacts
from ofcl.data.files.column_guesses import Guess, guess_column
from ofcl.data.files.table_facts import TableFacts
from ofcl.data.files.whole_table import Table
from ofcl.data.options import Reading
from ofcl.errors import OfclError

LABEL_NAMES = ("label", "labels", "class", "target", "y", "category")
TEXT_NAMES = ("text", "content", "sentence", "document")


@dataclass(frozen=True)
class Meaning:
    """The meaning of a table's columns: which one is the label, and which make the sample.

    Args:
        label: The column of the label.
        kind: The sample is a `text`, a `list` of numbers in one column, `numbers` in many columns,
            or `mixed`: cells of many columns that are not all numbers.
        columns: The columns of the sample; one, unless the kind is `numbers` or `mixed`.
        codes: How the cells of mixed columns are read, column by column.
        left_out: Why other columns are left out, by their names.
    """

    label: str
    kind: Literal["text", "list", "numbers", "mixed"]
    columns: tuple[str, ...]
    codes: tuple[ColumnCode, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def read(self, row: Mapping[str, Any]) -> tuple[Any, str]:
        """Reads the sample and the label of a row.

        Args:
            row: The values of the row by column.

        Raises:
            ValueError: A cell cannot be used; the message says what is wrong with it.
        """
        return self.sample(row), read_label(row.get(self.label), self.label)

    def sample(self, row: Mapping[str, Any]) -> Any:
        """Reads the sample of a row, a text or a list of numbers, whether it has a label or not.

        Args:
            row: The values of the row by column.

        Raises:
            ValueError: A cell cannot be used; the message says what is wrong with it.
        """
        if self.kind == "mixed":
            return [code.read(row.get(code.name)) for code in self.codes]
        if self.kind == "numbers":
            return [read_number(row.get(name), name) for name in self.columns]
        (name,) = self.columns
        read = read_number_list if self.kind == "list" else read_text
        return read(row.get(name), name)


def find_label(table: Table | TableFacts, how: Reading) -> str:
    """Finds the column of the labels: the one that the options name, else by its name.

    Args:
        table: The table.
        how: The options of reading.

    Raises:
        OfclError: The named column does not exist, or no column is called like a label.
    """
    label = how.label or find_name(table, LABEL_NAMES)
    if label is None:
        raise OfclError(
            f"'{table.name}' has the columns {', '.join(table.columns)}: which one is the label? "
            "Name it with --label"
        )
    table.column(label)
    return label


def find_meaning(given: Table | TableFacts, how: Reading, *, mixed: bool = False) -> Meaning:
    """Finds the columns of the label and of the sample: by the options, else by names and values.

    Args:
        given: The table, or the facts about one that is too large to be kept.
        how: The options of reading, which may name the columns.
        mixed: Whether columns may be categories, dates and so on, and may have gaps; else the
            sample is a text, or numbers alone.

    Raises:
        OfclError: A named column does not exist, or it is not clear what the columns mean.
    """
    table = TableFacts.of(given) if isinstance(given, Table) else given
    label = find_label(table, how)
    if label == how.text or label in how.columns:
        raise OfclError(
            f"'{label}' is the label of '{table.name}'; it cannot be learnt from itself"
        )
    if how.text is not None:
        table.column(how.text)
        return Meaning(label, "text", (how.text,))
    if how.columns:
        for name in how.columns:
            table.column(name)
        if how.standardisation is not None:  # an earlier table has said what the columns mean
            kind: Literal["numbers", "mixed"] = "mixed" if how.codes else "numbers"
            return Meaning(label, kind, how.columns, how.codes)
        return (
            _of_columns(table, label, how.columns)
            if mixed
            else Meaning(label, "numbers", how.columns)
        )
    for name in how.drop:
        table.column(name)
    # A column without a name is the number of the row, or comes of a comma at the end.
    rest = [name for name in table.columns if name and name != label and name not in how.drop]
    lists = [name for name in rest if _mostly(table.first(name), lambda v: isinstance(v, list))]
    if len(lists) == 1:
        return Meaning(label, "list", (lists[0],))
    return _guess_mixed(table, label, rest) if mixed else _guess_plain(table, label, rest)


def find_row_meaning(tables: Sequence[Table], named: bool) -> Meaning:
    """Finds what the columns of streams' first rows are, when it is known that they are rows.

    Args:
        tables: The rows of each stream, without their labels, all with the same columns.
        named: Whether the user has named the columns, so that none is left out.

    Raises:
        OfclError: All columns are empty.
    """
    columns = {name: [c for t in tables for c in t.columns[name]] for name in tables[0].columns}
    facts = TableFacts.of(Table(tables[0].name, columns, []))
    each = [TableFacts.of(table) for table in tables]
    guesses = {}
    for name in columns:
        guesses[name] = guess_column(facts.facts(name), named=named)
        # Each stream may number its rows from 1, so that together they are no longer different.
        if not named and all(one.facts(name).identifies for one in each):
            guesses[name] = Guess(None, "it looks like an identifier")
    used = [name for name, guess in guesses.items() if guess.code is not None]
    if not used:  # columns that seem to number the rows are still better than none
        used = [name for name in guesses if facts.facts(name).present]
    left_out = {name: guess.why for name, guess in guesses.items() if name not in used}
    if not used:
        raise OfclError(f"{tables[0].name} have no column with a value: {', '.join(columns)}")
    return _of_columns(facts, "", used, left_out)


def _of_columns(
    table: TableFacts, label: str, names: Sequence[str], left_out: Mapping[str, str] | None = None
) -> Meaning:
    """Returns the meaning of columns that are learned from, whatever they are.

    Args:
        table: The table.
        label: The column of the label.
        names: The columns.
        left_out: Why other columns are left out.
    """
    codes = []
    for name in names:
        code = guess_column(table.facts(name), named=True).code
        if code is None:
            raise OfclError(f"'{table.name}': column '{name}' is empty; leave it out")
        codes.append(code)
    plain = all(code.kind == "number" and _is_plain(table.facts(code.name)) for code in codes)
    kind: Literal["numbers", "mixed"] = "numbers" if plain else "mixed"
    return Meaning(label, kind, tuple(names), () if plain else tuple(codes), left_out or {})


def _is_plain(facts: ColumnFacts) -> bool:
    """Says whether cells are numbers without gaps and commas; a few others may be damaged."""
    return not facts.gaps and not facts.commas and facts.numbers > 0


def _guess_mixed(table: TableFacts, label: str, rest: Sequence[str]) -> Meaning:
    """Guesses which columns make the sample, and what each of them is.

    Args:
        table: The table.
        label: The column of the label.
        rest: The columns that may be learned from.
    """
    guesses = {name: guess_column(table.facts(name)) for name in rest}
    text = find_name(table, TEXT_NAMES)
    if text is not None and text in rest and not _mostly(table.first(text), is_number):
        return Meaning(label, "text", (text,))
    if len(rest) == 1 and not _mostly(table.first(rest[0]), is_number):
        code = guesses[rest[0]].code
        if code is None or (code.kind == "category" and not _repeats(table.facts(rest[0]))):
            return Meaning(label, "text", (rest[0],))
    used = [name for name, guess in guesses.items() if guess.code is not None]
    if not used:
        texts = [name for name, guess in guesses.items() if guess.text]
        if len(texts) == 1:
            return Meaning(label, "text", (texts[0],))
        if len(rest) == 1:  # a single column is what there is, an identifier or not
            return _of_columns(table, label, rest)
        return _guess_plain(table, label, rest)
    left_out = {name: guess.why for name, guess in guesses.items() if guess.code is None}
    return _of_columns(table, label, used, left_out)


def _repeats(facts: ColumnFacts) -> bool:
    """Says whether words come again and again, as categories do and texts do not."""
    cells, different = facts.present + facts.gaps, len(facts.words) + (facts.gaps > 0)
    return not facts.overflowed and cells >= FEWEST_ROWS and different <= cells / 5


def _guess_plain(table: TableFacts, label: str, rest: Sequence[str]) -> Meaning:
    """Guesses whether a text or numbers make the sample.

    Args:
        table: The table.
        label: The column of the label.
        rest: The columns that may be learned from.
    """
    words = [name for name in rest if not _mostly(table.first(name), is_number)]
    if rest and not words:
        return Meaning(label, "numbers", tuple(rest))
    if commas := [name for name in words if _mostly(table.first(name), has_decimal_comma)]:
        raise OfclError(
            f"'{table.name}': the numbers of column '{commas[0]}' have commas; write 1.5, not 1,5"
        )
    text = words[0] if len(words) == 1 and len(rest) == 1 else find_name(table, TEXT_NAMES)
    if text is None or text == label:
        has = f"columns that are not numbers ({', '.join(words)})" if words else "no other column"
        raise OfclError(
            f"'{table.name}' has, besides the label '{label}', {has}: name the column of the texts "
            "with --text, or those of the numbers with --set columns=a,b,…"
        )
    return Meaning(label, "text", (text,))


def find_name(table: Table | TableFacts, names: Sequence[str]) -> str | None:
    """Returns the column that has the first of some names, else the next; None: no column has any.

    Args:
        table: The table.
        names: The names in lower case; the column's may be in any case.
    """
    by_lower = {name.lower(): name for name in table.columns}
    return next((by_lower[name] for name in names if name in by_lower), None)


def _mostly(values: Sequence[Any], holds: Callable[[Any], bool]) -> bool:
    """Says whether a condition holds for more than half of a column's first 100 values.

    Empty values do not count; False if all are empty.

    Args:
        values: The values of the column.
        holds: Says whether the condition holds for a value.
    """
    seen = [value for value in values[:FIRST] if value not in (None, "")]
    return bool(seen) and sum(map(holds, seen)) > len(seen) / 2
