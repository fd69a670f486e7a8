"""Mistakes of a user: each error says in one line what was given and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OfclError(Exception):
    """A mistake that the user can mend; the command line prints it in one line and exits with 2."""


_MANY = 20  # names are too many to list, if one of them is near


def nearest(given: str, accepted: Iterable[str]) -> str:
    """Writes the end of an error message about an unknown name: accepted names, and the nearest.

    If many names are accepted, only a few near ones are written.

    Args:
        given: The name that was given.
        accepted: The names that are accepted.

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
    """Makes the error for an unknown name.

    Args:
        kind: The kind of thing that is named, such as `score`.
        given: The name that was given.
        accepted: The names that are accepted.

    >>> print(unknown("score", "bii", ["bi", "en"]))
    unknown score 'bii'; expected one of bi, en. Did you mean 'bi'?
    """
    return OfclError(f"unknown {kind} '{given}'; {nearest(given, accepted)}")


def printable(text: str) -> str:
    """Replaces letters that a terminal would obey: names of files and labels may be anybody's.

    Args:
        text: The text; line breaks stay.

    >>> printable(chr(27) + "[2Jcat")
    '·[2Jcat'
    """
    return "".join(c if c.isprintable() or c == "\n" else "·" for c in text)


def one_line(text: str, most: int = 300) -> str:
    """Makes one line, of a bounded length, of a text that somebody else has chosen.

    Args:
        text: The text.
        most: The most characters that are kept.

    >>> one_line("gone" + chr(10) + "error: all is lost")
    'gone·error: all is lost'
    """
    return printable(text[:most]).replace(chr(10), "·") + ("…" if len(text) > most else "")
