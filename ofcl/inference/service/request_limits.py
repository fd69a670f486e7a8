"""Limits of requests: bytes, seconds, samples and pixels; `Limited` holds requests to them."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofcl.inference.service.replies import Refused, refuse, throw_away

MIB = 2**20
MOST_HELD = 256 * MIB
"""The bytes that prepared samples of one request, or of the queue, may take."""


@dataclass(frozen=True)
class Limits:
    """How much a request may ask for.

    Args:
        body_bytes: The size of a request's body.
        samples: The samples in a request.
        pixels: The pixels of an image before it is resized.
        seconds: The time from a request's first byte to its answer.
        queue: The samples that may wait for the model; further requests are sent away.
        connections: The connections that are open at once.
    """

    body_bytes: int = 16 * MIB
    samples: int = 1000
    pixels: int = 25_000_000
    seconds: float = 30.0
    queue: int = 4096
    connections: int = 2000

    @property
    def bodies_bytes(self) -> int:
        """The size of all bodies that are held in memory at once."""
        return 16 * self.body_bytes

    def samples_of(self, shape: tuple[int, ...], classes: int) -> int:
        """Returns how many samples of a shape a request may have, so that they fit into memory.

        Args:
            shape: The shape of a sample.
            classes: The number of probabilities in an answer.
        """
        return min(self.samples, _that_fit(shape, classes))

    def queue_of(self, shape: tuple[int, ...], classes: int) -> int:
        """Returns how many samples of a shape may wait, so that they fit into memory.

        Args:
            shape: The shape of a sample.
            classes: The number of probabilities in an answer.
        """
        return min(self.queue, _that_fit(shape, classes))


def _that_fit(shape: tuple[int, ...], classes: int) -> int:
    """Returns how many samples, and the probabilities in their answers, fit into memory."""
    return max(1, MOST_HELD // (4 * (math.prod(shape) + classes)))


class Limited:
    """Passes requests on to an application, within the limits of size and time.

    A body is counted while it comes in, whatever its headers say of its length, so one that is too
    large is never held. A request that takes too long is cancelled.

    Args:
        app: The application.
        limits: The limits.

    Attributes:
        held: The bytes of all bodies that are in memory now.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self.held = 0

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
        request = _Request(self, scope, receive, send)
        try:
            async with asyncio.timeout(self._limits.seconds):
                await request.pass_on(self._app, self._limits)
            return
        except TimeoutError:
            text = f"the limit is {self._limits.seconds:g} seconds"
            slow_model = Refused(504, f"the answer took too long: {text}")
            refused = slow_model if request.complete else Refused(408, f"the body is slow: {text}")
        except Refused as error:
            refused = error
        finally:
            request.let_go()
        if not request.answered:
            await refuse(refused, send, receive=None if request.complete else receive)


class _Request:
    """A request that is being read and answered.

    Args:
        within: Counts the bytes of all requests.
        scope: The request's line and headers.
        receive: Gives the parts of its body.
        send: Takes the parts of the answer.
    """

    def __init__(self, within: Limited, scope: Scope, receive: Receive, send: Send) -> None:
        self._within, self._scope, self._receive, self._send = within, scope, receive, send
        headers = dict(scope["headers"])
        self._length = int(headers.get(b"content-length", b"0"))  # the server has checked it
        self.complete = not self._length and b"transfer-encoding" not in headers
        self.size, self.answered = 0, False

    async def pass_on(self, app: ASGIApp, limits: Limits) -> None:
        """Lets an application answer, and counts the body.

        Args:
            app: The application.
            limits: The limits.

        Raises:
            Refused: The body is too large.
        """
        if self._length > limits.body_bytes:
            raise self._too_large(limits)

        async def receive() -> Message:
            message = await self._receive()
            if message["type"] == "http.request":
                size = len(message.get("body", b""))
                self.size += size
                self._within.held += size
                self.complete = not message.get("more_body", False)
                if self.size > limits.body_bytes:
                    raise self._too_large(limits)
                if self._within.held > limits.bodies_bytes:
                    raise Refused(503, "too many large requests at once; try again", retry=1)
            return message

        await app(self._scope, receive, self._pass_back)

    def let_go(self) -> None:
        """Counts the body no more."""
        self._within.held -= self.size
        self.size = 0

    async def _pass_back(self, message: Message) -> None:
        """Sends a part of the answer; closes the connection if the body was not read to its end."""
        if not self.answered:
            self.answered = True
            self.let_go()
        if not self.complete and message["type"] == "http.response.start":
            close = (b"connection", b"close")
            message = {**message, "headers": [*message.get("headers", ()), close]}
        elif not self.complete and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await throw_away(self._receive)
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _too_large(self, limits: Limits) -> Refused:
        return Refused(413, f"the body is larger than {limits.body_bytes / MIB:g} MiB")
