"""Calls of a party to Flower's server: repeated until it can be reached; refusals become errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ofcl.errors import OfclError

TRY_AGAIN = 2.0  # seconds between two tries to reach the server
TEMPORARY = (502, 503, 504)  # HTTP statuses of a server that will be back
# Seconds that this clock may be ahead of the server's, or behind; Flower refuses 5 and 305.
AHEAD, BEHIND = 4.0, 300.0


class Refused(OfclError):
    """Raised when the server does not let this party in."""


class RunOver(Exception):
    """Raised when the run of a message has ended, or this process is about to end."""


class Caller:
    """Calls Flower's server for a party; a call is repeated until the server can be reached.

    Args:
        address: The server's host and port.
        plain: Whether the server is called without TLS.
        tell: Is given each line of the party's log.
        leaving: Is set when the process is about to end: calls are then not repeated any more.
    """

    def __init__(
        self, address: str, *, plain: bool, tell: Callable[[str], None], leaving: threading.Event
    ) -> None:
        self._address, self._plain, self._tell, self._leaving = address, plain, tell, leaving
        self._away = False  # whether the log says that the server cannot be reached
        self.let_in = False  # whether the server has let the party in

    def call(self, method: Callable[[Any], Any], request: Any) -> Any:
        """Calls a method of Flower's client until it gives an answer.

        Args:
            method: The method of Flower's client.
            request: The request that is handed to the method.

        Returns:
            The server's answer.

        Raises:
            Refused: If the server does not let the party in.
            RunOver: If the run has ended, or the process is about to.
        """
        import httpx

        while True:
            try:
                answer = method(request)
            except httpx.TransportError as error:
                self._judge_transport(error)
            except httpx.HTTPStatusError as error:
                self.judge(error)
            else:
                if self._away:
                    self._away = False
                    self._tell("the server can be reached again")
                return answer
            if not self._away:
                self._away = True
                self._tell(f"the server at {self._address} cannot be reached; trying again")
            self.wait()

    def wait(self) -> None:
        """Waits before the next try; raises `RunOver` if the process is about to end."""
        if self._leaving.wait(TRY_AGAIN):  # this may be a thread that others wait for
            raise RunOver

    def judge(self, error: Any) -> None:
        """Raises the error that fits the HTTP status of a failed call; returns if a retry may help.

        Args:
            error: The `httpx.HTTPStatusError` of the call.

        Raises:
            RunOver: If the run of the message has ended (403).
            Refused: If the party's key or its clock is wrong (401).
            httpx.HTTPStatusError: The error itself, for every other status but 502, 503 and 504.
        """
        status = error.response.status_code
        if status in TEMPORARY:
            return
        if status == 403:
            raise RunOver from None
        if status == 401:
            raise self._wrong_clock(error.response) or self.unknown_key() from None
        raise error

    def _wrong_clock(self, response: Any) -> Refused | None:
        """Makes the error for a party whose clock differs too much from the server's.

        Signed requests carry the time, so a wrong clock looks like a wrong key.

        Args:
            response: The server's refusal, which carries the time of the server's clock.

        Returns:
            The error; None if the clocks agree, or the response carries no time.
        """
        try:
            server_time = parsedate_to_datetime(response.headers["date"])
        except (KeyError, ValueError):
            return None
        ahead = (datetime.now(UTC) - server_time).total_seconds()
        if -BEHIND < ahead < AHEAD:
            return None
        return Refused(
            f"the clock here is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the one "
            f"of the server at {self._address}, which refuses it for that; set both by NTP"
        )

    def unknown_key(self) -> Refused:
        """Makes the error of a party whose key the server does not know."""
        return Refused(
            f"the server at {self._address} does not know this party's key; the folder that the "
            "organiser has handed out last holds the right one, unless the party was removed"
        )

    def _judge_transport(self, error: Any) -> None:
        """Raises `Refused` if TLS is the reason why no call reaches the server; else returns.

        Args:
            error: The `httpx.TransportError` of the call.
        """
        import httpx

        text = str(error).lower()
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        if "certificate has expired" in text:
            raise Refused(
                f"the certificate of the server at {self._address} has expired, by the clock here "
                f"({now}). If the clock is right, the organiser renews it (ofcl federation renew)"
            ) from None
        if "not yet valid" in text:
            raise Refused(
                f"the clock here is behind: it says {now}, and the certificate of the server at "
                f"{self._address} begins later. Set it by NTP"
            ) from None
        if any(word in text for word in ("certificate", "ssl", "tls")):
            raise Refused(
                f"the server at {self._address} is not the one of this federation, or does not "
                f"speak TLS: {error}"
            ) from None
        # A server that listens and hangs up on the first word waits for TLS.
        hung_up = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
        if hung_up and self._plain and not self.let_in:
            raise Refused(
                f"the server at {self._address} does not speak plaintext: leave out --insecure"
            ) from None
