"""Bytes and seconds of requests, without a server."""

import asyncio
import json

import pytest

from ofcl.inference.service.request_limits import Limited, Limits

LITTLE = Limits(body_bytes=100, seconds=0.2)


async def read_all(scope, receive, send):
    """An application that reads the body, and answers with its length."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


class Asked:
    """A request whose body comes in parts; an event among them is waited for."""

    def __init__(self, limited, *parts, headers=()):
        self.limited, self.parts, self.sent = limited, list(parts), []
        chunked = [(b"transfer-encoding", b"chunked")]
        self.scope = {"type": "http", "path": "/", "headers": list(headers) or chunked}

    async def receive(self):
        part = self.parts.pop(0)
        if isinstance(part, asyncio.Event):
            await part.wait()
            part = self.parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.parts)}

    async def send(self, message):
        self.sent.append(message)

    async def answer(self):
        await self.limited(self.scope, self.receive, self.send)
        return self.sent[0]["status"], b"".join(message["body"] for message in self.sent[1:])


def answer_of(*parts, headers=(), app=read_all):
    async def ask():
        limited = Limited(app, LITTLE)
        asked = Asked(limited, *parts, headers=headers)
        found = await asked.answer()
        assert limited.held == 0
        return (*found, asked)

    return asyncio.run(ask())


def test_a_body_may_be_as_large_as_the_limit():
    assert answer_of(b"a" * 50, b"b" * 50)[:2] == (200, b"100")


def test_a_body_is_counted_as_it_comes_and_cut_off():
    status, body, asked = answer_of(b"a" * 50, b"b" * 51, b"c" * 10, b"d")
    assert status == 413
    assert "larger than" in json.loads(body)["error"]
    assert (b"connection", b"close") in asked.sent[0]["headers"]


def test_a_body_that_says_it_is_larger_is_not_read():
    status, _, asked = answer_of(b"a", headers=[(b"content-length", b"101")])
    assert status == 413
    assert asked.parts == []  # it was thrown away


def test_all_bodies_together_have_a_limit():
    async def ask():
        limited, go_on = Limited(read_all, LITTLE), asyncio.Event()
        asked = [Asked(limited, b"a" * 100, go_on, b"") for _ in range(16)]
        waiting = [asyncio.ensure_future(one.answer()) for one in asked]
        await asyncio.sleep(0)
        assert limited.held == LITTLE.bodies_bytes == 1600
        one_more = Asked(limited, b"a", b"")
        status, _ = await one_more.answer()
        assert (status, limited.held) == (503, 1600)
        assert (b"retry-after", b"1") in one_more.sent[0]["headers"]
        go_on.set()
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200] * 16
        assert limited.held == 0

    asyncio.run(ask())


def test_a_slow_body_and_a_slow_answer_are_told_apart():
    async def slow(scope, receive, send):
        await receive()
        await asyncio.sleep(5)

    assert answer_of(asyncio.Event(), b"")[0] == 408
    status, body, _ = answer_of(b"", app=slow)
    assert (status, json.loads(body)["error"]) == (
        504,
        "the answer took too long: the limit is 0.2 seconds",
    )


def test_an_answer_before_the_end_of_the_body_closes_the_connection():
    async def rash(scope, receive, send):
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    status, body, asked = answer_of(b"a", b"b", b"c", app=rash)
    assert (status, body, asked.parts) == (404, b"no", [])
    assert (b"connection", b"close") in asked.sent[0]["headers"]
    whole = answer_of(headers=[(b"content-length", b"0")], app=rash)[2]
    assert whole.sent[0]["headers"] == []


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
def test_other_messages_are_passed_on(kind):
    seen = []

    async def note(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(Limited(note, LITTLE)({"type": kind}, None, None))
    assert seen == [kind]
