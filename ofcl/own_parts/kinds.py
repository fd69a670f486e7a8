"""The kinds of parts that a user can bring, by the setting that names one."""

from __future__ import annotations

import functools
import re
from importlib.metadata import EntryPoint, entry_points

GROUPS = {
    "model": "ofcl.models",
    "method": "ofcl.methods",
    "policy": "ofcl.policies",
    "score": "ofcl.scores",
    "loss": "ofcl.losses",
    "augment": "ofcl.augmentations",
    "optimizer": "ofcl.optimizers",
    "aggregation": "ofcl.aggregations",
    "dataset": "ofcl.datasets",
    "feed": "ofcl.feeds",
    "tracker": "ofcl.trackers",
}
"""For each kind, the entry-point group in which installed packages announce parts of it."""

SETTINGS = ("model", "method", "policy", "score", "loss", "augment", "optimizer", "aggregation")
"""The kinds that are settings of the same name; their values may be paths or Python objects."""

HANDED = "python:"
"""Begins the name of a part that was given as a Python object and cannot be imported by a path."""

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_OTHER_PREFIXES = ("hf:", "watch:", "timm:", HANDED)


def is_path(name: str) -> bool:
    """Says whether a name is a path to Python code, `package.module:name`.

    >>> is_path("mypackage.nets:make_net"), is_path("mlp"), is_path("hf:imdb")
    (True, False, False)

    Args:
        name: The name of a part.
    """
    return _PATH.fullmatch(name) is not None and not name.startswith(_OTHER_PREFIXES)


def is_code(name: str) -> bool:
    """Says whether a name stands for code by itself: a path, or an object that was handed over.

    Args:
        name: The name of a part.
    """
    return is_path(name) or name.startswith(HANDED)


@functools.cache
def installed(kind: str) -> dict[str, EntryPoint]:
    """Lists the parts of a kind that installed packages announce, by name; none is imported.

    Args:
        kind: A kind in `GROUPS`.
    """
    return {point.name: point for point in entry_points(group=GROUPS[kind])}


def origin(point: EntryPoint) -> str:
    """Names the package that an entry point is from, with its version.

    Args:
        point: The entry point.
    """
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
