"""A party's ledger: how many updates every run has had from its data, and what that costs in ε."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ofcl.privacy import epsilon
from ofcl.storage.atomic_files import write_whole

FILE = "ledger.json"


class Ledger:
    """The ledger in a party's folder. It never leaves the party.

    Args:
        folder: The party's folder.
        data: The fingerprint of the party's data; all runs on the same data add up.
    """

    def __init__(self, folder: Path, data: str) -> None:
        self._path, self._data = folder / FILE, data or "stream"
        self._content: dict[str, Any] = {}
        if self._path.exists():
            self._content = json.loads(self._path.read_text(encoding="utf-8"))

    def _runs(self) -> dict[str, dict[str, Any]]:
        """Gives the entries of the runs on these data, by the names of the runs."""
        runs: dict[str, dict[str, Any]] = self._content.setdefault("data", {}).setdefault(
            self._data, {}
        )
        return runs

    def secret(self) -> str:
        """Gives a secret of this folder, from which the noise of statistics is drawn."""
        if "secret" not in self._content:
            self._content["secret"] = secrets.token_hex(16)
            self._write()
        return str(self._content["secret"])

    def released(self, run: str) -> int:
        """Gives the number of updates that a run has had from these data.

        Args:
            run: The name of the run.
        """
        return int(self._runs().get(run, {}).get("updates", 0))

    def note(self, run: str, settings: Mapping[str, Any], updates: int) -> None:
        """Writes down how many updates a run has had, before the newest leaves.

        Args:
            run: The name of the run.
            settings: The settings of the run.
            updates: The number of updates so far.
        """
        if updates > self.released(run):
            noise = settings.get("dp_noise", 0.0) if settings.get("dp_clip") else 0.0
            self._runs()[run] = {"updates": updates, "noise": noise}
            self._write()

    def epsilon(
        self,
        delta: float,
        run: str = "",
        settings: Mapping[str, Any] | None = None,
        updates: int = 0,
    ) -> float:
        """Computes the ε of all updates that these data have had a share in.

        Gaussian noises add up: n updates with noise z cost n · (2/z)² in the square of the
        distance, whatever the run.

        Args:
            delta: The δ of the guarantee.
            run: A run that may go on; "": none.
            settings: The settings of that run.
            updates: How many updates it will have had then.
        """
        entries = dict(self._runs())
        if settings is not None:
            noise = settings.get("dp_noise", 0.0) if settings.get("dp_clip") else 0.0
            entries[run] = {"updates": updates, "noise": noise}
        square = math.fsum(
            entry["updates"] * (2 / entry["noise"]) ** 2 if entry["noise"] else math.inf
            for entry in entries.values()
            if entry["updates"]
        )
        if square == 0 or math.isinf(square):
            return square
        return epsilon(1, 2 / math.sqrt(square), delta)

    def in_words(self, settings: Mapping[str, Any]) -> str:
        """Says in a line for the log what the data have cost so far.

        Args:
            settings: The settings of the run that begins.
        """
        runs = [entry for entry in self._runs().values() if entry["updates"]]
        if not runs:
            return "ledger: no update has left these data yet"
        delta = float(settings.get("dp_delta", 1e-5))
        cost = self.epsilon(delta)
        bound = "without any bound (no noise)" if math.isinf(cost) else f"{cost:.2f} at δ {delta:g}"
        updates = sum(entry["updates"] for entry in runs)
        return f"ledger: {updates} updates in {len(runs)} runs have left these data; ε is {bound}"

    def _write(self) -> None:
        """Writes the ledger to the disk."""
        # Once for every update: with `indent`, Python's slow encoder would be used.
        lines = [f" {json.dumps(name)}: {json.dumps(of)}" for name, of in self._content.items()]
        write_whole(self._path, "{\n" + ",\n".join(lines) + "\n}\n")
