"""Replies that every part of the service gives: refusals as JSON, headers that protect."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from starlette.types import Receive, Send

LINGER = 1.0
"""The seconds for which the rest of a refused body is read and thrown away."""

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class Refused(Exception):
    """A request that is not answered.

    Args:
        status: The HTTP status.
        reason: What is wrong, for who has asked.
        retry: The seconds after which asking again makes sense; None: it makes none.
    """

    def __init__(self, status: int, reason: str, retry: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry = status, reason, retry

    def headers(self) -> dict[str, str]:
        """Returns the headers that belong to the refusal."""
        found = {} if self.retry is None else {"Retry-After": str(self.retry)}
        return found | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})

    def body(self) -> bytes:
        """Returns the refusal as JSON."""
        return json.dumps({"error": self.reason}).encode()


async def refuse(refused: Refused, send: Send, receive: Receive | None = None) -> None:
    """Sends a refusal, and closes the connection if the request is not read to its end.

    Args:
        refused: The refusal.
        send: Takes the parts of the answer.
        receive: Gives what is left of the request, which is thrown away; None: nothing is left.
    """
    body = refused.body()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    headers |= refused.headers() | ({} if receive is None else {"Connection": "close"})
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if receive is not None:
        await throw_away(receive)
    await send({"type": "http.response.body", "body": b""})


async def throw_away(receive: Receive) -> None:
    """Reads what is left of a request for a moment, and keeps none of it.

    A connection that is closed on somebody who still sends would lose the answer.

    Args:
        receive: Gives what is left.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while (await receive()).get("more_body"):
                pass
