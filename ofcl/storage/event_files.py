"""The files of a run's events; those of a run without end are put aside, and summed up in the end.

    events.jsonl           the newest events
    events.<number>.jsonl  earlier files of a run over streams, put aside when they were large
    events-before.json     the sums of still earlier events, whose files are deleted

So an endless run takes a bounded part of the disk, and its result is still that of all events. The
files of runs over datasets are never put aside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ofcl.errors import OfclError
from ofcl.evaluation.results import Summary
from ofcl.events import from_json
from ofcl.state import State
from ofcl.storage.atomic_files import write_whole

NEWEST, BEFORE = "events.jsonl", "events-before.json"
LARGE = 16 * 2**20  # bytes after which the newest file is put aside
KEPT = 4  # files that are kept besides the newest


@dataclass(frozen=True)
class EarlierEvents:
    """The sums of events whose files are deleted.

    Args:
        count: How many events these were.
        deleted: The number of the last file that is summed up here, whether it still lies there.
        sums: The state of their `Summary`.
    """

    count: int = 0
    deleted: int = 0
    sums: State = field(default_factory=dict)

    def summary(self) -> Summary:
        """Makes the summary of these events, to which later ones can be added."""
        return Summary.from_state(self.sums) if self.sums else Summary()


def earlier_events(folder: Path) -> EarlierEvents:
    """Reads the sums of events whose files are deleted; without any, the sums of none.

    Args:
        folder: The run directory.

    Raises:
        OfclError: If the file is damaged.
    """
    path = folder / BEFORE
    if not path.exists():
        return EarlierEvents()
    try:
        return EarlierEvents(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise OfclError(f"'{path}' cannot be read: {error}") from None


def put_aside(folder: Path) -> None:
    """Renames the newest file, which nobody has open, so that another one is begun.

    Args:
        folder: The run directory.
    """
    number = 1 + max((*_numbers(folder), earlier_events(folder).deleted))
    (folder / NEWEST).rename(folder / f"events.{number}.jsonl")


def sum_up(folder: Path, safe: int) -> None:
    """Sums up and deletes files of events of which there are too many, the earliest first.

    Args:
        folder: The run directory.
        safe: So many events are in both checkpoints; no run goes back behind them.
    """
    while len(_numbers(folder)) > KEPT:
        earlier = earlier_events(folder)
        summary, count, first = earlier.summary(), earlier.count, _numbers(folder)[0]
        for number, value in counted_events(folder):
            if number != first:
                break
            summary.add(from_json(value))
            count += 1
        if count > safe:
            return
        sums = {"count": count, "deleted": first, "sums": summary.state()}
        write_whole(folder / BEFORE, json.dumps(sums))
        (folder / f"events.{first}.jsonl").unlink()


def counted_events(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the events that count, each with the number of its file; 0 is the newest file.

    A line `resumed` says how many of the events before it count. An event counts only if it counts
    for every later `resumed`, so the files are read twice: first for these lines, then for the
    events.

    Args:
        folder: The run directory.
    """
    counts = [value["after"] for _, value in _lines(folder, '"resumed"') if _is_resumed(value)]
    position, segment = earlier_events(folder).count, 0
    for number, value in _lines(folder):
        if _is_resumed(value):
            position, segment = min(position, value["after"]), segment + 1
            continue
        if position < min(counts[segment:], default=position + 1):
            yield number, value
        position += 1


def _numbers(folder: Path) -> list[int]:
    """Lists the numbers of the files that were put aside and are not summed up, in their order."""
    found = (re.fullmatch(r"events\.(\d+)\.jsonl", path.name) for path in folder.glob("events.*"))
    numbers = sorted(int(match[1]) for match in found if match)
    if not numbers:
        return []
    deleted = earlier_events(folder).deleted
    return [number for number in numbers if number > deleted]


def _lines(folder: Path, having: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the complete lines of all files as dictionaries, with the numbers of the files.

    Args:
        folder: The run directory.
        having: Only lines with this text.
    """
    files = [(number, f"events.{number}.jsonl") for number in _numbers(folder)]
    for number, name in [*files, (0, NEWEST)]:
        path = folder / name
        if not path.exists():
            continue
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for line in file:
                if having not in line:
                    continue
                try:
                    value = json.loads(line)
                except json.JSONDecodeError:  # cut short by a crash, before the run was resumed
                    continue
                if isinstance(value, dict) and isinstance(value.get("event"), str):
                    yield number, value


def _is_resumed(value: dict[str, Any]) -> bool:
    """Says whether a line of the event file is a `resumed` line."""
    return value["event"] == "resumed" and isinstance(value.get("after"), int)
