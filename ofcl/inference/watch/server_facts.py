"""The facts that the page at the server shows, from the files of the federation's folder."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from ofcl.errors import OfclError
from ofcl.evaluation.cross_matrix import CrossMatrix
from ofcl.evaluation.metrics import forgetting, last_accuracy, to_its_end
from ofcl.evaluation.results import Result
from ofcl.federation.server_side.enrolment import DOORS
from ofcl.federation.server_side.run_list import Runs
from ofcl.federation.setup.folders import ServerFolder, load_server
from ofcl.federation.setup.keys import days_left
from ofcl.federation.status_file import FILE, Facts, read_status
from ofcl.inference.watch.event_tail import EventTail
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory

SILENT = 20.0  # seconds without a sign of life after which a process counts as gone
OVER = ("finished", "stopped", "failed")


class ServerFacts:
    """Collects the facts of a federation's server.

    Args:
        folder: The folder of the federation.
        clock: Gives the time of day, in seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._run: RunDirectory | None = None
        self._tail: EventTail | None = None
        load_server(folder)  # refuses a folder that is none

    def collect(self) -> Facts:
        """Collects the facts as they are now."""
        server, now = load_server(self._folder), self._clock()
        noted = read_status(self._folder / "server" / FILE)
        doors = read_status(self._folder / "server" / DOORS)
        alive = now - noted.get("written", 0.0) < SILENT
        path = Path(noted["run"]) if noted.get("run") else None
        settings, result = self._read(server, path)
        run = {"name": path.name if path else None, **_state(noted, alive), **self._course()}
        parties = [
            self._party(number, name, server, noted if alive else {}, doors, result, now)
            for number, name in enumerate(server.federation.parties)
        ]
        return {
            "kind": "server",
            "name": server.federation.name,
            "now": now,
            "server_up": now - doors.get("written", 0.0) < SILENT,
            "certificate_days": _days(server),
            "run": {**run, **_numbers(result, settings), "epsilon": noted.get("epsilon")},
            "waited_for": [p for p in parties if p["waited"] is not None],
            "parties": [
                {**party, **self._classes(number, party["name"], noted)}
                for number, party in enumerate(parties)
            ],
            "cross_site": _cross_site(result, server.federation.parties),
            "rejected": noted.get("rejected", [])[::-1],
            "refused": noted.get("refused", 0),
            "lines": noted.get("lines", [])[::-1],
        }

    def _read(
        self, server: ServerFolder, path: Path | None
    ) -> tuple[Settings | None, Result | None]:
        """Reads the settings of the run, and computes its result so far; None: there is none."""
        run = RunDirectory(path) if path is not None else Runs(server).last()
        if run is None or not run.started():
            self._run = self._tail = None
            return None, None
        if self._run is None or self._run.path != run.path or self._tail is None:
            self._run, self._tail = run, EventTail(run)
        self._tail.look()
        settings = run.settings()
        tasks = None if settings.streams else run.earlier_tasks() + settings.tasks
        result = self._tail.summary.result(
            clients=settings.clients,
            tasks=tasks,
            seconds=self._tail.seconds,
            joint=settings.joint,
        )
        return settings, result

    def _course(self) -> Facts:
        """Gives the number of the round, the seconds of the last rounds, and their accuracies."""
        rounds = list(self._tail.rounds) if self._tail is not None else []
        took = [round(b[1] - a[1], 2) for a, b in itertools.pairwise(rounds)]
        return {
            "round": rounds[-1][0] if rounds else 0,
            "round_seconds": median(took[-20:]) if took else None,
            "last_round_seconds": took[-1] if took else None,
            "course": [[number, right] for number, _, right in rounds],
        }

    def _party(
        self,
        number: int,
        name: str,
        server: ServerFolder,
        noted: Facts,
        doors: Facts,
        result: Result | None,
        now: float,
    ) -> Facts:
        """Gives the facts of a party; `noted` is empty if no run goes on."""
        seen = noted.get("parties", {}).get(name, {})
        door = doors.get("parties", {}).get(name, {})
        known = "connected" in seen and noted.get("state") not in OVER
        connected = bool(seen["connected"] if known else door.get("connected", False))
        since = seen.get("since" if connected else "away_since") if known else None
        waited = now - seen["asked"] if "asked" in seen and connected else None
        learned = [row for row in result.anytime if row["client"] == number] if result else []
        sums = {k: sum(row[k] for row in learned) for k in ("batches", "samples", "correct")}
        matrix = to_its_end(result.accuracy[number]) if result and _has(result, number) else []
        return {
            "name": name,
            "left": name in server.federation.left,
            "connected": connected,
            "since": since or _seconds(door.get("since", "")),
            "answered": seen.get("answered"),
            "failed": seen.get("failed"),
            "took": seen.get("took"),
            "waited": None if waited is None else round(waited, 1),
            "batches": sums["batches"],
            "task": max((row["task"] + 1 for row in learned), default=0),
            "anytime": 100 * sums["correct"] / sums["samples"] if sums["samples"] else None,
            "A": last_accuracy(matrix) if matrix else None,
            "F": forgetting(matrix) if matrix else None,
        }

    def _classes(self, number: int, name: str, noted: Facts) -> Facts:
        """Gives the number of a party's classes, and the first of their labels."""
        told = noted.get("classes", {}).get(name, {"count": 0, "labels": []})
        labels = [*told["labels"], *(self._tail.labels.get(number, []) if self._tail else [])]
        labels = list(dict.fromkeys(labels))
        tested = len(self._tail.classes.get(number, ())) if self._tail else 0
        return {"classes": max(told["count"], len(labels), tested), "labels": labels}


def _state(noted: Facts, alive: bool) -> Facts:
    """Gives how the run is, and since when there was no sign of life of its process."""
    state = noted.get("state", "none")
    if state not in (*OVER, "none") and not alive:
        return {"state": "silent", "silent_since": noted.get("written")}
    return {"state": state, "silent_since": None}


def _numbers(result: Result | None, settings: Settings | None) -> Facts:
    """Gives accuracy, forgetting and bytes of the run so far, and what it is."""
    if result is None or settings is None:
        return {}
    return {
        "method": settings.method,
        "rounds_are": settings.rounds,
        "delta": settings.dp_delta if settings.dp_clip is not None else None,
        "A": result.A if result.A is not None else _mean_so_far(result, last_accuracy),
        "F": result.F if result.F is not None else _mean_so_far(result, forgetting),
        "anytime": result.anytime_accuracy,
        "bytes_sent": result.bytes_sent,
        "bytes_received": result.bytes_received,
        "seconds": result.seconds,
    }


def _cross_site(result: Result | None, names: Sequence[str]) -> Facts | None:
    """Gives the matrix of cross-site validation by the parties' names; None: there is none."""
    if result is None or not result.cross_site:
        return None
    matrix = CrossMatrix(result.cross_site)
    rows = [
        {
            "model": None if model is None else names[model],
            "accuracy": [matrix.accuracy(model, client) for client in matrix.clients],
        }
        for model in matrix.models
    ]
    return {"parties": [names[client] for client in matrix.clients], "rows": rows}


def _mean_so_far(result: Result, value: Callable[..., float | None]) -> float | None:
    """Averages a value over the clients, each up to its last test."""
    found = [value(matrix) for matrix in map(to_its_end, result.accuracy) if matrix]
    known = [each for each in found if each is not None]
    return sum(known) / len(known) if known else None


def _has(result: Result, number: int) -> bool:
    """Tells whether a client has a place in a result; a party that came later has none."""
    return number < len(result.accuracy)


def _days(server: ServerFolder) -> int | None:
    """Counts the days until the server's certificate expires, or that of its authority."""
    try:
        return min(days_left(path.read_bytes()) for path in (server.certificate, server.authority))
    except (OSError, ValueError, OfclError):
        return None


def _seconds(when: str) -> float | None:
    """Turns a time as an ISO 8601 text into seconds; None: there is none."""
    try:
        return datetime.fromisoformat(when).timestamp()
    except ValueError:
        return None


def facts_of_parties(facts: Mapping[str, Any]) -> list[Facts]:
    """Lists the facts of the parties that take part.

    Args:
        facts: The facts of a server.
    """
    return [party for party in facts["parties"] if not party["left"]]
