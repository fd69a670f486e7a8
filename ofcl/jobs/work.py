"""A run for a worker to make, and its reports, as lines of JSON between two processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings

Outcome = Literal["finished", "stopped", "refused", "failed"]
"""How a run has ended: `refused` before anything was learned, as its settings do not fit."""


@dataclass(frozen=True, eq=False)
class Work:
    """A run to make: to begin, to go on with, or only to read if it is finished.

    Two of them are never equal: each is work of its own.

    Args:
        path: The run directory.
        settings: The settings of the run.
    """

    path: Path
    settings: Settings

    def to_line(self) -> str:
        """Writes the work as a line of JSON; settings that nobody gave are left out."""
        given = self.settings.model_dump(exclude_unset=True)
        return json.dumps({"path": str(self.path), "settings": given})


def work_from(values: dict[str, Any]) -> Work:
    """Reads the work that `Work.to_line` has written.

    Args:
        values: The parsed line.
    """
    return Work(Path(values["path"]), make_settings(values["settings"]))


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Args:
        batches: The mini-batches that all clients have learned.
        all_batches: How many there will be; None: nobody knows.
        task: The task that is learned now, from 0.
        tasks: The number of tasks.
        ended: The number of tasks that all clients have ended.
        anytime_accuracy: The accuracy on samples just before they were learned, over the run so
            far, in percent. It is told when a task has ended; else None.
    """

    batches: int
    all_batches: int | None
    task: int
    tasks: int
    ended: int
    anytime_accuracy: float | None = None


@dataclass(frozen=True)
class Told:
    """A line for the user, for example a warning.

    Args:
        line: The line.
    """

    line: str


@dataclass(frozen=True)
class Ended:
    """The end of a worker's work on a run.

    Args:
        outcome: How it has ended.
        message: Why, unless it is finished.
    """

    outcome: Outcome
    message: str = ""


Report = Progress | Told | Ended
_KINDS: dict[str, type[Progress | Told | Ended]] = {
    kind.__name__: kind for kind in (Progress, Told, Ended)
}


def report_to_line(report: Report) -> str:
    """Writes a report as a line of JSON.

    Args:
        report: The report.

    >>> report_to_line(Ended("stopped"))
    '{"Ended": {"outcome": "stopped", "message": ""}}'
    """
    return json.dumps({type(report).__name__: asdict(report)})


def report_from_line(line: str) -> Report:
    """Reads a report that `report_to_line` has written.

    Args:
        line: The line of JSON.
    """
    ((kind, values),) = json.loads(line).items()
    return _KINDS[kind](**values)
