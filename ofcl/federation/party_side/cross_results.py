"""The results of cross-site validation at a party: in its log, and in `helps.json` of its folder.

A party hears how good the models of others are on its own test data, and how good its own model is
on those of others; nothing of what others know of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ofcl.engines.cross_tester import Row
from ofcl.federation.party_side.helps_file import HELPS, read_helps, write_helps


class CrossResults:
    """Takes the results of a run's cross-site validation.

    Args:
        folder: The party's folder.
        party: The name of the party.
        run: Gives the name of the run.
        tell: Is given each line of the party's log.
    """

    def __init__(
        self, folder: Path, party: str, run: Callable[[], str], tell: Callable[[str], None]
    ) -> None:
        self._path, self._party, self._run, self._tell = folder / HELPS, party, run, tell

    def __call__(self, here: Sequence[Row], elsewhere: Sequence[Row]) -> None:
        """Tells the user the results, and adds them to `helps.json`.

        Args:
            here: All models on the party's test data.
            elsewhere: The party's own model on the test data of others.
        """
        for line in self._in_words(here, elsewhere):
            self._tell(line)
        noted = read_helps(self._path, self._run())
        noted["cross_site"] = {"here": _plain(here), "elsewhere": _plain(elsewhere)}
        try:
            write_helps(self._path, noted)
        except OSError as error:  # the server has the results, too
            self._tell(f"error: '{self._path}' could not be written: {error}")

    def _in_words(self, here: Sequence[Row], elsewhere: Sequence[Row]) -> list[str]:
        """Says the results in two lines for the log."""
        samples = max((row.samples for row in here), default=0)
        models = ", ".join(f"{self._name_of(row)} {_percent(row)}" for row in here)
        others = ", ".join(f"{row.name} {_percent(row)} ({row.samples} samples)"
                           for row in elsewhere)  # fmt: skip
        return [
            f"cross-site validation, on your test data ({samples} samples): {models or 'no model'}",
            f"cross-site validation, your model on the data of others: {others or 'of nobody'}",
        ]

    def _name_of(self, row: Row) -> str:
        """Names a model in words."""
        if not row.name:
            return "global model"
        return "your own" if row.name == self._party else f"of {row.name}"


def _percent(row: Row) -> str:
    """Writes the accuracy of a row in percent."""
    return "–" if row.accuracy is None else f"{row.accuracy:.1f} %"


def _plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Gives rows as plain values for a file; the party of the global model is None."""
    return [
        {
            "party": row.name or None,
            "accuracy": None if row.accuracy is None else round(row.accuracy, 2),
            "samples": row.samples,
        }
        for row in rows
    ]


def consent_in_words(agrees: bool) -> str:
    """Says in a line for the log that a run asks for cross-site validation, and what follows.

    Args:
        agrees: Whether the party agrees to it.
    """
    if agrees:
        return (
            "the organiser asks for cross-site validation, and you agree: at the end the server "
            "hands your model to the others who agree, and hears how many of your test samples "
            "their models predict right"
        )
    return (
        "the organiser asks for cross-site validation: you take no part in it (to agree, start "
        "with --cross-site; cross_site = false in policy.toml forbids it)"
    )
