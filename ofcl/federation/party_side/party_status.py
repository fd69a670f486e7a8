"""Notes of a party's process for `ofcl federation watch`: `status.json` in the party's folder.

They are the party's own and never leave it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ofcl.engines.messages import Request
from ofcl.evaluation.metrics import accuracies
from ofcl.federation.status_file import FILE, StatusFile, read_status
from ofcl.state import State, nbytes

MOST_TESTS = 100  # tests at the ends of tasks that are noted; of streams, the last ones
MOST_LABELS = 100  # labels that are noted; the others are counted
LONGEST = 80  # characters of a label
SHOWN = ("method", "memory", "q", "lr", "rounds", "secure_aggregation", "dp_clip", "dp_noise")
"""Settings of a run that are noted."""

KEPT = ("lines", "run", "exchange", "learned", "status", "answered", "bytes_sent", "bytes_received",
        "messages", "epsilon", "bounded", "sums", "tests", "labels", "settings", "all_labels",
        "failures")  # fmt: skip
"""Facts that a party that is started again still knows."""


class PartyStatus:
    """Notes how a party's process is, and what it has answered.

    Args:
        folder: The party's folder.
        local_too: Whether a second learner learns from the party's data alone.
    """

    def __init__(self, folder: Path, *, local_too: bool = False) -> None:
        path = folder / FILE
        before = read_status(path)
        first = {"state": "connecting", "local_too": local_too, "bytes_sent": 0, "messages": 0,
                 "bytes_received": 0, "sums": {}, "tests": {}, "failures": 0}  # fmt: skip
        kept = {k: before[k] for k in KEPT if k in before}
        self._file = StatusFile(path, {**first, **kept}, between=0.0)

    def told(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """Makes a function that notes each line and then tells it to the user.

        Args:
            tell: Tells the user.
        """

        def note(text: str) -> None:
            if "cannot be reached" in text:
                self._file.facts["state"] = "unreachable"
            elif "can be reached again" in text:
                self._file.facts["state"] = "connected"
            self._file.line(text)
            tell(text)

        return note

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Notes that the party is connected within the context, and when it has left."""
        self._file.facts |= {"state": "connected", "since": round(self._file.now(), 1)}
        self._file.write()
        try:
            with self._file.alive():
                yield
        finally:
            self._file.facts["state"] = "ended"
            self._file.write()

    def introduced(self, labels: Sequence[str], sent: int) -> None:
        """Notes an introduction.

        Args:
            labels: The labels in it.
            sent: Its bytes.
        """
        shown = [label[:LONGEST] for label in labels[:MOST_LABELS]]
        self._file.facts["labels"] = {"count": len(labels), "labels": shown}
        self._sent(sent)

    def asked(self, request: Request, settings: Mapping[str, Any], labels: Sequence[str]) -> None:
        """Notes a request of the server.

        Args:
            request: The request.
            settings: The settings of its run.
            labels: The labels of all parties.
        """
        facts = self._file.facts
        if facts.get("run") != request.run:
            facts |= {"run": request.run, "sums": {}, "tests": {}, "learned": 0, "exchange": 0}
        received = sum(nbytes(tensors) for tensors in (request.model, request.handed) if tensors)
        facts |= {"asked": round(self._file.now(), 1), "steps": list(request.steps),
                  "bytes_received": facts["bytes_received"] + received,
                  "settings": {name: settings[name] for name in SHOWN if name in settings},
                  "all_labels": len(labels)}  # fmt: skip
        self._file.changed()

    def answered(self, request: Request, reply: State, sent: int, epsilon: float) -> None:
        """Notes the answer to a request.

        Args:
            request: The request.
            reply: The reply as it leaves, without tensors.
            sent: Its bytes.
            epsilon: What the party's data have cost so far.
        """
        facts, now = self._file.facts, self._file.now()
        facts |= {"exchange": reply["exchange"], "learned": reply["learned"],
                  "status": reply["status"], "bounded": math.isfinite(epsilon),
                  "epsilon": epsilon if math.isfinite(epsilon) else None}  # fmt: skip
        facts["took"] = round(now - facts.get("asked", now), 2)
        self._add(reply["events"], request.seen, reply["exchange"])
        self._sent(sent)

    def failed(self) -> None:
        """Notes that the server was told of a failure."""
        self._file.facts.pop("asked", None)
        self._file.facts["failures"] += 1
        self._file.changed()

    def _sent(self, sent: int) -> None:
        """Notes that a message leaves."""
        facts = self._file.facts
        facts["bytes_sent"] += sent
        facts["messages"] += 1
        facts["answered"] = round(self._file.now(), 1)
        facts.pop("asked", None)
        self._file.changed()

    def _add(self, events: Iterable[Mapping[str, Any]], seen: int, exchange: int) -> None:
        """Adds up the events of a reply; those after the exchange `seen` are all in it.

        Args:
            events: The events.
            seen: The last exchange whose events have arrived at the server.
            exchange: The exchange of the reply.
        """
        sums = {int(number): pair for number, pair in self._file.facts["sums"].items()}
        known = [number for number in sums if number <= seen]
        base = max(known, default=None)
        samples, correct = sums[base] if base is not None else (0, 0)
        for event in events:
            if event["event"] == "learned":
                samples, correct = samples + event["samples"], correct + event["correct"]
            elif event["event"] == "evaluated":
                self._add_test(event)
        kept = {n: pair for n, pair in sums.items() if n == base or seen < n < exchange}
        self._file.facts["sums"] = {**kept, exchange: [samples, correct]}

    def _add_test(self, event: Mapping[str, Any]) -> None:
        """Notes the accuracies of a test at the end of a task."""
        tests = self._file.facts["tests"]
        row = accuracies(event["test"], len(event["test"]))
        tests[str(event["task"])] = [None if a is None else round(a, 2) for a in row][-MOST_TESTS:]
        for task in sorted(tests, key=int)[:-MOST_TESTS]:
            del tests[task]
