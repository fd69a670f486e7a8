"""Tables: CSV, JSONL and Parquet as columns of values, with the line of every row for messages."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ofcl.data.options import Damage
from ofcl.errors import OfclError

DELIMITERS = ",;\t|"
_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Table:
    """Columns of one length; `lines[i]` is where row i was in the file, counted from 1."""

    name: str
    columns: dict[str, list[Any]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[Any]:
        """A column by name."""
        if name not in self.columns:
            raise OfclError(
                f"'{self.name}' has no column '{name}'; it has {', '.join(self.columns) or 'none'}"
            )
        return self.columns[name]


def table_format(path: Path) -> str | None:
    """The format that a file's name promises: csv, jsonl, parquet, or None.

    >>> table_format(Path("a/b.csv.gz")), table_format(Path("x.NDJSON")), table_format(Path("x.py"))
    ('csv', 'jsonl', None)
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _OPEN:
        suffixes.pop()
    formats = {
        ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
        ".parquet": "parquet", ".pq": "parquet",
    }  # fmt: skip
    return formats.get(suffixes[-1]) if suffixes else None


def read_table(path: Path, damage: Damage, header: tuple[str, ...] | None = None) -> Table:
    """A whole table; `header` names the columns of a CSV file that has none."""
    kind = table_format(path)
    if kind == "parquet":
        return _parquet(path)
    rows = _csv_rows(path, damage, header) if kind == "csv" else _json_rows(path, damage)
    columns: dict[str, list[Any]] = {}
    lines: list[int] = []
    for line, row in rows:
        for name in row:
            if name not in columns:  # a JSON object may bring a name late
                columns[name] = [None] * len(lines)
        for name, values in columns.items():
            values.append(row.get(name))
        lines.append(line)
    return Table(path.name, columns, lines)


def parse_json_row(text: str) -> dict[str, Any]:
    """One line of JSONL; ValueError says what is wrong with it."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos + 1})") from None
    except RecursionError:
        raise ValueError("not a sample: nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object but a {type(value).__name__}")
    return value


def _json_rows(path: Path, damage: Damage) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in _lines(path):
        if text.strip():
            try:
                yield line, parse_json_row(text)
            except ValueError as error:
                damage.report(f"'{path.name}', line {line}: {error}", line)


def _csv_rows(
    path: Path, damage: Damage, header: tuple[str, ...] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = _lines(path)
    first = next(((line, text) for line, text in lines if text.strip()), None)
    if first is None:
        raise OfclError(f"'{path.name}' is empty")
    texts = _chain(first[1], (text for _, text in lines))
    with _long_fields():
        # Files whose columns are known from elsewhere are the usual ones, with commas.
        delimiter = "," if header else _delimiter(first[1])
        reader = csv.reader(texts, delimiter=delimiter, strict=True)
        before = first[0] - 1
        while True:
            line = before + reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = f"'{path.name}', line {line}: {error}"
                if header is None:  # the line after it is none
                    raise OfclError(f"{problem}; the first line must name the columns") from None
                if (last := before + reader.line_num) > line:
                    raise OfclError(
                        f"{problem}: a quote opens there and swallows the lines up to {last}; "
                        'close it, or write it twice ("") where it is meant'
                    ) from None
                damage.report(problem, line)
                continue
            if not any(field.strip() for field in row):
                continue
            if header is None:
                header = _header(path, row)
            elif len(row) != len(header):
                damage.report(
                    f"'{path.name}', line {line}: {len(row)} fields, but there are "
                    f"{len(header)} columns",
                    line,
                )
            else:
                yield line, dict(zip(header, row, strict=True))


def _header(path: Path, row: list[str]) -> tuple[str, ...]:
    names = tuple(" ".join(name.split()) for name in row)  # spreadsheets break long names
    _check_names(path, names)
    if all(is_number(name) for name in names):
        raise OfclError(
            f"'{path.name}' begins with numbers ({', '.join(names[:3])} …); its first line must "
            "name the columns"
        )
    return names


def _check_names(path: Path, names: Sequence[str]) -> None:
    if twice := {name for name in names if names.count(name) > 1}:
        raise OfclError(f"'{path.name}' has two columns of the name '{min(twice)}'")


def _delimiter(header: str) -> str:
    """The mark that parts the most names."""

    def names(mark: str) -> int:
        try:
            return len(next(csv.reader([header], delimiter=mark)))
        except csv.Error:  # the reader of all lines will say so
            return 0

    return max(DELIMITERS, key=names)


def is_number(text: Any) -> bool:
    """Whether a value is a number or is written as one."""
    if isinstance(text, bool):
        return False
    try:
        float(text)
    except OverflowError:  # an integer of more than 308 digits
        return True
    except (TypeError, ValueError):
        return False
    return True


def _parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise OfclError(
            "Parquet files need the package pyarrow; install it with: pip install 'ofcl[hub]'"
        ) from None
    try:
        table = parquet.ParquetFile(path).read()
        _check_names(path, table.column_names)
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).split("\n")[0]
        raise OfclError(f"'{path.name}' cannot be read as Parquet ({reason})") from None
    return Table(path.name, columns, list(range(1, table.num_rows + 1)))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, compressed or not, each with its number."""
    with readable(path) as file:
        start = file.peek(2)[:2] if hasattr(file, "peek") else b""
        if start in _UTF16:
            # Not a codecs reader, for which a line also ends at marks that texts have inside.
            with io.TextIOWrapper(file, "utf-16", newline="\n") as texts:
                for number, text in enumerate(texts, 1):
                    yield number, _without_zeros(path.name, number, text)
            return
        for number, raw in enumerate(file, 1):
            yield number, decode_line(path.name, number, raw)


def decode_line(name: str, number: int, raw: bytes) -> str:
    """A line as text."""
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise OfclError(
            f"'{name}', line {number}: byte 0x{raw[error.start]:02x} is not UTF-8; convert the "
            "file, for example with: iconv -f latin1 -t utf-8"
        ) from None
    return _without_zeros(name, number, text)


def _without_zeros(name: str, number: int, text: str) -> str:
    if "\0" in text:
        raise OfclError(
            f"'{name}', line {number}: a zero byte, which no text has; the file is damaged, or "
            "convert it, for example with: iconv -f utf-16le -t utf-8"
        )
    return text


@contextmanager
def readable(path: Path) -> Iterator[IO[bytes]]:
    """A file, unpacked if its name says that it is packed; what is wrong with it as one line."""
    try:
        with _OPEN.get(path.suffix.lower(), open)(path, "rb") as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)
        raise OfclError(f"'{path}' cannot be read ({reason})") from None
    except (EOFError, zlib.error, lzma.LZMAError, UnicodeError) as error:
        raise OfclError(f"'{path}' is damaged ({error})") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """A text may be longer than what the csv module takes for a mistake."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _chain(first: str, others: Iterator[str]) -> Iterator[str]:
    yield first
    yield from others
