"""Names of new run directories, where the user gives none."""

from __future__ import annotations

import re
import time
from pathlib import Path

from ofcl.settings.schema import Settings


def default_out(settings: Settings, of: str | None = None) -> Path:
    """Names a directory in `runs/` that does not exist yet, by data, method, seed and time.

    Args:
        settings: The settings of the run.
        of: A word that stands in the name instead of the seed; None: the seed stands there.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    data = "stream" if settings.streams else Path(settings.dataset).name.split(".")[0]
    method = f"{settings.method}-joint" if settings.joint else settings.method
    # Parts of a user's own have names with colons, which no folder of Windows may have.
    name = re.sub(r'[<>:"/\\|?*]', "-", f"{data}-{method}-{of or f'seed{settings.seed}'}-{stamp}")
    path, again = Path("runs") / name, 1
    while path.exists():
        path, again = Path("runs") / f"{name}-{again}", again + 1
    return path
