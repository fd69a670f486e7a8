"""The guard before Flower's server: large bodies are refused before they are read."""

import asyncio
import threading

import pytest

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")

from ofcl.federation.server_side import flower_server
from ofcl.federation.server_side.flower_server import Guard

LIMIT = flower_server.MOST_SMALL


def asked(path, chunks, length=None):
    """Sends a request through the guard; gives the status, and the bytes that Flower has read."""
    ready, sent, read = threading.Event(), [], [0]
    ready.set()
    left = list(chunks)

    async def app(scope, receive, send):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            read[0] += len(message["body"])
            if not message["more_body"]:
                await send({"type": "http.response.start", "status": 200})
                return

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "path": path, "headers": headers}
    guard = Guard(app, "token", ready)
    asyncio.run(guard(scope, receive, send))
    assert guard._reading == 0
    return (sent[0]["status"] if sent else None), read[0]


def test_bodies_are_bounded_before_they_are_read():
    path = "/v1/fleet/pull-messages"
    assert asked(path, [b"x" * 10], 10) == (200, 10)
    assert asked(path, [b""], LIMIT + 1) == (413, 0)
    status, read = asked(path, [b"x" * LIMIT] * 5)  # it does not say how long it is
    assert (status, read) == (None, LIMIT)
    assert asked("/v1/fleet/push-object", [b"x" * LIMIT] * 5, 5 * LIMIT) == (200, 5 * LIMIT)
    assert asked("/v1/fleet/push-object", [b""], flower_server.MOST_LARGE + 1) == (413, 0)
