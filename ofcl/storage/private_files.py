"""Files that only their owner may read: keys and tokens."""

from __future__ import annotations

import logging
import os
from pathlib import Path

WINDOWS = os.name == "nt"
LOG = logging.getLogger(__name__)


def others_can_read(path: Path) -> bool:
    """Says whether other users of this machine can read or change a file.

    Windows has no modes: its access lists are not looked at, and a warning says so.

    Args:
        path: The file.
    """
    if WINDOWS:
        LOG.warning(
            "whether others can read '%s' is not checked on Windows; to be sure: icacls \"%s\" "
            "/inheritance:r /grant:r \"%%USERNAME%%:F\"", path, path,
        )  # fmt: skip
        return False
    return bool(path.stat().st_mode & 0o077)
