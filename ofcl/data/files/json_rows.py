"""Rows of JSON lines: one object on each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ofcl.data.files.text_lines import read_lines
from ofcl.data.options import Damage


def json_rows(path: Path, damage: Damage) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each line of a file as its number, counted from 1, and its values by column.

    Args:
        path: The file.
        damage: Lines that cannot be used are reported to it.
    """
    for line, text in read_lines(path):
        if text.strip():
            try:
                yield line, parse_json_row(text)
            except ValueError as error:
                damage.report(f"'{path.name}', line {line}: {error}", line)


def parse_json_row(text: str) -> dict[str, Any]:
    """Parses one line of JSON into its values by column.

    Args:
        text: The line.

    Raises:
        ValueError: The line is not a JSON object; the message says what is wrong with it.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos + 1})") from None
    except RecursionError:
        raise ValueError("not a sample: nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object but a {type(value).__name__}")
    return value
