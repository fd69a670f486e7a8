"""What goes wrong by a user's hand: one root, one line, what was given and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OfclError(Exception):
    """A mistake the user can mend; the command line prints it in one line and exits with 2."""


_MANY = 20  # names are too many to list when there is a nearest one


def nearest(given: str, accepted: Iterable[str]) -> str:
    """The tail of an error about a name: what is accepted, and the nearest match.

    >>> nearest("bregmann", ["bi", "bregman"])
    "expected one of bi, bregman. Did you mean 'bregman'?"
    """
    names = sorted(accepted)
    close = difflib.get_close_matches(given.lower(), names, n=3 if len(names) > _MANY else 1)
    if len(names) > _MANY and close:
        return f"did you mean {' or '.join(close)}?"
    hint = f". Did you mean '{close[0]}'?" if close else ""
    return f"expected one of {', '.join(names)}{hint}"


def unknown(kind: str, given: str, accepted: Iterable[str]) -> OfclError:
    """The error for a name nobody knows.

    >>> print(unknown("score", "bii", ["bi", "en"]))
    unknown score 'bii'; expected one of bi, en. Did you mean 'bi'?
    """
    return OfclError(f"unknown {kind} '{given}'; {nearest(given, accepted)}")
