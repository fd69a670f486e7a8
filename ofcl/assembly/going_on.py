"""Going on: from the path of an earlier run, or of a model, to a start and settings that fit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ofcl.assembly.inheritance import Data, check_restated, inherited
from ofcl.assembly.start import Start
from ofcl.assembly.start_from_bundle import start_from_bundle
from ofcl.assembly.start_from_run import start_from_run
from ofcl.bundle.bundle_files import is_bundle
from ofcl.bundle.open_bundle import SEALED
from ofcl.errors import OfclError
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings


def read_start(path: str | Path) -> Start:
    """Reads what a run can go on from.

    Args:
        path: A run directory, finished or not; or a bundle, as a folder or zip file.

    Raises:
        OfclError: If there is no such thing, or a run cannot go on from it.
    """
    if Path(path).name == SEALED or (Path(path) / SEALED).exists():
        raise OfclError(f"the model at '{path}' is encrypted; a run cannot go on from it")
    return start_from_bundle(path) if is_bundle(Path(path)) else start_from_run(path)


def make_continued(*layers: dict[str, Any]) -> tuple[Settings, Start | None]:
    """Puts settings together; those of a run that goes on begin with the earlier run's.

    Args:
        layers: Dictionaries of values by the setting's name, as for `make_settings`.

    Returns:
        The settings, and the start that they name; None: they name none.
    """
    given: dict[str, Any] = {}
    for layer in layers:
        given |= layer
    if given.get("start") is None:
        return make_settings(given), None
    start = read_start(given["start"])
    data: Data = "streams" if given.get("streams") else "dataset"
    before = inherited(start, data)
    check_restated(before, given)
    return make_settings(before, given), start
