"""A run that goes on by itself when its server was away and is back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ofcl.federation.transport import NoServer, ServerGone

T = TypeVar("T")


def until_over(attempt: Callable[[bool], T], tell: Callable[[str], None]) -> T:
    """Makes attempts until one ends otherwise than by the server's going away.

    The first attempt must find a server; the later ones wait for it.

    Args:
        attempt: Connects to the server, begins a run or goes on with it, and gives its result. It
            is told whether it is the first. A later one waits for the server for some seconds.
        tell: Is given a line for the user when the server has gone.

    Raises:
        NoServer: If there is no server at the first attempt.
    """
    first = True
    while True:
        try:
            return attempt(first)
        except ServerGone as error:
            if first and isinstance(error, NoServer):
                raise
            if not isinstance(error, NoServer):
                tell(f"{error}; this process waits for it, and then goes on by itself")
            first = False
