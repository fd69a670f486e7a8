"""The facts that a party's page shows, from the files of the party's folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ofcl.evaluation.metrics import forgetting, last_accuracy
from ofcl.federation.party_side.helps_file import HELPS
from ofcl.federation.party_side.party_status import MOST_TESTS
from ofcl.federation.setup.folders import load_party
from ofcl.federation.setup.keys import days_left
from ofcl.federation.status_file import FILE, Facts, read_status
from ofcl.inference.watch.server_facts import SILENT


class PartyFacts:
    """Collects the facts of a party.

    Args:
        folder: The party's folder.
        clock: Gives the time of day, in seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._party, self._clock = load_party(folder), clock

    def collect(self) -> Facts:
        """Collects the facts as they are now."""
        folder, now = self._party.folder, self._clock()
        noted = read_status(folder / FILE)
        written = noted.get("written")
        state = noted.get("state", "never started")
        alive = written is not None and now - written < SILENT
        if written is not None and not alive and state != "ended":
            state = "silent"
        asked = noted.get("asked")
        return {
            "kind": "party",
            "name": self._party.party,
            "federation": self._party.federation,
            "server": self._party.server,
            "now": now,
            "certificate_days": self._days(),
            "state": state,
            "since": noted.get("since"),
            "silent_since": written if state == "silent" else None,
            "busy": round(now - asked, 1) if asked is not None and alive else None,
            **{name: noted.get(name) for name in PLAIN},
            "labels": noted.get("labels", {"count": 0, "labels": []}),
            "settings": noted.get("settings", {}),
            **_course(noted),
            "helps": _helps(folder / HELPS, noted.get("run")),
            "lines": noted.get("lines", [])[::-1],
        }

    def _days(self) -> int | None:
        """Counts the days until the certificate of the authority expires."""
        try:
            return days_left(self._party.authority.read_bytes())
        except (OSError, ValueError):
            return None


PLAIN = ("run", "exchange", "learned", "status", "answered", "took", "bytes_sent", "bytes_received",
         "messages", "epsilon", "bounded", "local_too", "all_labels", "failures")  # fmt: skip
"""Facts that are shown as they were noted."""


def _course(noted: Facts) -> Facts:
    """Gives the accuracy on samples before they were learned, and A and F of the party's tests."""
    sums = noted.get("sums", {})
    samples, correct = sums[max(sums, key=int)] if sums else (0, 0)
    tests: dict[str, list[Any]] = noted.get("tests", {})
    rows = [tests[task] for task in sorted(tests, key=int)]
    width = max(map(len, rows), default=0)
    matrix = [[*row, *[None] * (width - len(row))] for row in rows]
    whole = len(matrix) < MOST_TESTS  # else the first tests are not known any more
    return {
        "anytime": 100 * correct / samples if samples else None,
        "A": last_accuracy(matrix) if matrix else None,
        "F": forgetting(matrix) if matrix and whole else None,
    }


def _helps(path: Path, run: str | None) -> Facts | None:
    """Reads how good the party's models are on its test data; None: of this run nothing yet."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("run") != run:
        return None
    return {**found, "tasks": found.get("tasks", [])[-MOST_TESTS:]}
