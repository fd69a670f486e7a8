"""The versions that a run or a model is made with."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import torch

from ofcl.version import __version__


def made_with() -> dict[str, Any]:
    """Lists the versions and the machine that a run is made with, for its settings file."""
    return {
        "ofcl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }
