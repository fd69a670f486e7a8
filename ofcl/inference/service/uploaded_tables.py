"""Tables that anybody may have sent: read row by row, and no further than a request may go."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ofcl.data.files.csv_rows import DELIMITERS, csv_rows
from ofcl.data.files.json_rows import json_rows
from ofcl.data.files.tables import FORMATS
from ofcl.data.options import Damage
from ofcl.errors import OfclError
from ofcl.inference.service import parquet_child

KINDS = ("csv", "jsonl", "parquet")
MOST_COLUMNS = 10_000
_ONE_AT_A_TIME = threading.Lock()  # the csv module's limit of a field is one for all threads


def table_kind(name: str) -> str | None:
    """Returns the format of a table by its file's name; None: it is no table, or a packed one.

    Packed tables and spreadsheets are not read: a small file could become a huge one.

    Args:
        name: The name of the file.

    >>> table_kind("a.CSV"), table_kind("a.csv.gz"), table_kind("a.xlsx")
    ('csv', None, None)
    """
    kind = FORMATS.get(PurePosixPath(name).suffix.lower())
    return kind if kind in KINDS else None


def table_rows(name: str, data: bytes, columns: tuple[str, ...], most: int) -> list[dict[str, Any]]:
    """Reads the first rows of a table.

    Args:
        name: The name of its file, which tells the format.
        data: Its bytes.
        columns: The columns that are needed.
        most: The number of rows after which reading stops.

    Raises:
        OfclError: It cannot be read, or lacks a column.
    """
    kind = table_kind(name)
    if kind == "parquet":
        return list(_parquet(data, columns, most))
    with _ONE_AT_A_TIME:
        return list(itertools.islice(_lines(kind, data), most))


def _lines(kind: str | None, data: bytes) -> Iterator[dict[str, Any]]:
    """Yields the rows of CSV or JSON lines, by a file in a folder that only this user can read."""
    first = data[:1_000_000].split(b"\n", 1)[0].decode("latin-1")
    if kind == "csv" and max(map(first.count, DELIMITERS)) >= MOST_COLUMNS:
        raise OfclError(f"the table has more than {MOST_COLUMNS} columns")
    with tempfile.TemporaryDirectory(prefix="ofcl-") as folder:
        path = Path(folder) / f"table.{kind}"
        path.write_bytes(data)
        reader = csv_rows(path, Damage(), None) if kind == "csv" else json_rows(path, Damage())
        for _, row in reader:
            yield row


def _parquet(data: bytes, columns: tuple[str, ...], most: int) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file, which a process of its own reads."""
    if sys.platform != "linux":
        raise OfclError(
            "this service reads no Parquet files: only Linux can limit the memory of their reader, "
            "and a small file may unpack to any size. Send CSV or lines of JSON"
        )
    if importlib.util.find_spec("pyarrow") is None:
        raise OfclError("this service reads no Parquet files: pyarrow is not installed")
    command = [sys.executable, "-I", parquet_child.__file__, json.dumps(columns), str(most)]
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, input=data, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=2 * parquet_child.MOST_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OfclError("the table takes too long to read") from None
    if done.returncode == parquet_child.MISSING:
        column, names = json.loads(done.stdout)
        raise OfclError(f"column '{column}' is missing; it has {names}")
    if done.returncode != 0:
        raise OfclError("the table cannot be read as Parquet, or unpacks to too much")
    for line in done.stdout.splitlines():
        yield json.loads(line)
