"""The outermost layer of the service: counts requests, adds headers, lets no error through."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofcl.inference.service.prometheus import Numbers
from ofcl.inference.service.replies import HEADERS, Refused, refuse

GONE = 499
"""The status under which requests are counted whose sender has left."""


class Observed:
    """Passes requests on to an application, and counts them.

    Nothing that a request says is printed: of an unexpected error, only its kind and place.

    Args:
        app: The application.
        routes: The paths that are counted by name; others are counted together.
        numbers: Counts requests.
        tell: Prints a line for who runs the service.
    """

    def __init__(
        self, app: ASGIApp, routes: Collection[str], numbers: Numbers, tell: Callable[[str], None]
    ) -> None:
        self._app, self._routes, self._numbers, self._tell = app, routes, numbers, tell
        self._running = 0
        numbers.gauge("requests_running", lambda: self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request.

        Args:
            scope: The request's line and headers.
            receive: Gives the parts of its body.
            send: Takes the parts of the answer.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        self._running += 1

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                raw = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *raw]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = GONE  # whatever was said to nobody
        except Exception as error:
            self._tell(f"error: {type(error).__name__} at {_place(error)}")
            if not status:
                await refuse(Refused(500, "an error of the service"), send_with_headers, receive)
        finally:
            self._running -= 1
            route = scope["path"] if scope["path"] in self._routes else "other"
            self._numbers.request(route, status or 500, time.perf_counter() - start)


def _place(error: Exception) -> str:
    """Returns the file and line that raised an error."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"
