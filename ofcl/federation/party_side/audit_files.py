"""Earlier files of a party's audit: compressed, and the very oldest summed up.

    audit.jsonl               the newest lines
    audit.<number>.jsonl.gz   earlier ones, put aside when the file was large
    audit-before.json         of still earlier ones: messages, bytes, the name of every field

A party that takes part for years fills no disk with it, and still knows the name of every field
that has ever left.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ofcl.storage.atomic_files import write_whole, write_whole_bytes

FILE, BEFORE = "audit.jsonl", "audit-before.json"
LARGE = 16 * 2**20  # bytes after which the newest file is put aside
KEPT = 40  # files that are kept besides the newest; compressed, each has about half a megabyte


def put_aside(folder: Path) -> None:
    """Compresses the newest file if it is large; sums up and deletes the oldest ones.

    Args:
        folder: The party's folder.
    """
    newest = folder / FILE
    if newest.stat().st_size < LARGE:
        return
    number = 1 + max((*_numbers(folder), _before(folder)["deleted"]))
    write_whole_bytes(folder / f"audit.{number}.jsonl.gz", gzip.compress(newest.read_bytes(), 6))
    with newest.open("r+b") as file:  # a crash before this leaves lines twice, never none
        file.truncate(0)
        os.fsync(file.fileno())
    while len(numbers := _numbers(folder)) > KEPT:
        _sum_up(folder, numbers[0])


def audit_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields all lines that are kept, the earliest first.

    Args:
        folder: The party's folder.
    """
    for number in _numbers(folder):
        with gzip.open(folder / f"audit.{number}.jsonl.gz", "rt", encoding="utf-8") as file:
            yield from map(json.loads, file)
    newest = folder / FILE
    if newest.exists():
        with newest.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def _sum_up(folder: Path, number: int) -> None:
    """Adds a file to the sums of earlier ones, and deletes it."""
    sums, path = _before(folder), folder / f"audit.{number}.jsonl.gz"
    fields = set(sums["fields"])
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in map(json.loads, file):
            sums["messages"] += 1
            sums["bytes"] += line["bytes"]
            sums["until"] = line["time"]
            fields |= {field["field"] for field in line["fields"]}
    write_whole(folder / BEFORE, json.dumps({**sums, "deleted": number, "fields": sorted(fields)}))
    path.unlink()


def _before(folder: Path) -> dict[str, Any]:
    """Reads the sums of files that are deleted; those of none if there are none."""
    path = folder / BEFORE
    nothing = {"deleted": 0, "messages": 0, "bytes": 0, "until": "", "fields": []}
    return {**nothing, **json.loads(path.read_text(encoding="utf-8"))} if path.exists() else nothing


def _numbers(folder: Path) -> list[int]:
    """Lists the numbers of the compressed files that are not summed up, in their order."""
    found = (re.fullmatch(r"audit\.(\d+)\.jsonl\.gz", path.name) for path in folder.glob("audit.*"))
    numbers = sorted(int(match[1]) for match in found if match)
    deleted = _before(folder)["deleted"] if numbers else 0
    return [number for number in numbers if number > deleted]
