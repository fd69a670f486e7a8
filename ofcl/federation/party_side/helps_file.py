"""`helps.json` in a party's folder: how good its models are for it, along the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ofcl.federation.party_side.benefit import ModelName, OnNewSamples
from ofcl.methods.accompanied import Accompanied
from ofcl.methods.learner import Learner
from ofcl.storage.atomic_files import write_whole

HELPS = "helps.json"


def read_helps(path: Path, run: str) -> dict[str, Any]:
    """Reads what is noted of a run.

    Args:
        path: The file.
        run: The name of the run.

    Returns:
        The content; if nothing is noted of the run, or the file is damaged, the run and no tasks.
    """
    try:
        noted = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for row in noted["tasks"] if isinstance(row["task"], int)]
        return {**noted, "tasks": rows} if noted["run"] == run else {"run": run, "tasks": []}
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or somebody changed it
        return {"run": run, "tasks": []}


def write_helps(path: Path, content: dict[str, Any]) -> None:
    """Writes the whole file.

    Args:
        path: The file.
        content: The new content.
    """
    write_whole(path, json.dumps(content, indent=1) + "\n")


def note_new_samples(
    path: Path, run: str, kept: ModelName, learner: Learner, tell: Callable[[str], None]
) -> None:
    """Notes and tells how good the party's model and the one alone were on the newest samples.

    It is for streams, which may never end a task. It does so whenever there are enough samples that
    it has not told of.

    Args:
        path: The file.
        run: The name of the run.
        kept: The model that the party keeps.
        learner: The client's learner; if no second one learns alone, nothing is noted.
        tell: Is given each line of the party's log.
    """
    if not isinstance(learner, Accompanied) or learner.new_samples.last is None:
        return
    counts, noted = learner.new_samples, read_helps(path, run)
    if not learner.complete or noted.get("new", {}).get("lot") == counts.lots:
        return
    compared = OnNewSamples(*learner.new_samples.last)
    new = {"lot": counts.lots, **compared.to_json()}
    try:
        write_helps(path, {"over": False, "kept": kept, **noted, "new": new})
    except OSError as error:  # the run goes on without
        tell(f"error: '{path}' could not be written: {error}")
        return
    tell(compared.in_words())
