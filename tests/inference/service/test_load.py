"""Many requests at once, and an end in the middle of them."""

import asyncio
import signal
import time

import httpx

from tests.inference.service.conftest import served
from tests.support.commands import in_one_process

pytestmark = in_one_process


async def ask_often(address, times, at_once, body):
    """Asks many times, so many at once; gives the status of each answer, 0 if none came."""
    left = iter(range(times))
    found = []

    async def ask_in_turn(client):
        for _ in left:
            try:
                answer = await client.post("/predict", json=body)
                found.append((answer.status_code, answer))
            except httpx.TransportError:
                found.append((0, None))

    limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx.AsyncClient(
        base_url=address, timeout=60, limits=limits, trust_env=False
    ) as client:
        await asyncio.gather(*(ask_in_turn(client) for _ in range(at_once)))
    return found


def test_a_thousand_requests_at_once(vector_model):
    body = {"samples": [[0.5] * 8]}
    with served(vector_model) as service:
        with service.client() as client:
            wanted = client.post("/predict", json=body).json()[0]["label"]
            before = service.memory()
            found = asyncio.run(ask_often(service.address, 1000, 1000, body))
            lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
        assert [status for status, _ in found] == [200] * 1000
        assert {answer.json()[0]["label"] for _, answer in found} == {wanted}
        assert int(lines["ofcl_samples_total"]) == 1001
        assert int(lines["ofcl_batches_total"]) < 700  # they were joined
        assert service.memory() < before + 150


def test_more_than_can_wait_is_sent_away(image_model):
    body = {"samples": [[[0] * 8] * 8] * 50}
    with served(image_model, "--queue", 60) as service:
        found = asyncio.run(ask_often(service.address, 60, 30, body))
        with service.client() as client:
            assert client.post("/predict", json=body).status_code == 200
    assert {status for status, _ in found} == {200, 503}
    refused = next(answer for status, answer in found if status == 503)
    assert refused.headers["Retry-After"] == "1"
    assert "samples wait already" in refused.json()["error"]


def test_the_end_comes_after_the_answers(image_model):
    body = {"samples": [[[0] * 8] * 8] * 100}

    async def end_in_the_middle(service):
        asking = asyncio.ensure_future(ask_often(service.address, 40, 40, body))
        async with httpx.AsyncClient(base_url=service.address, trust_env=False) as client:
            while "ofcl_batches_total 0" in (await client.get("/metrics")).text:
                await asyncio.sleep(0.01)
        service.command.send(signal.SIGTERM)
        return await asking

    with served(image_model) as service:
        found = asyncio.run(end_in_the_middle(service))
        for _ in range(200):
            if not service.command.running:
                break
            time.sleep(0.05)
    assert [status for status, _ in found] == [200] * 40
    assert all(len(answer.json()) == 100 for _, answer in found)


def test_nothing_of_a_request_is_printed(vector_model):
    with served(vector_model) as service, service.client() as client:
        client.post("/predict?top=3&who=patient-name", json={"samples": ["patient-name"]})
        client.get("/patient-name", headers={"X-Name": "patient-name"})
        outputs = service.command._outputs
        service.command.send(signal.SIGINT)  # Ctrl-C ends it as SIGTERM does
    assert not any("patient" in path.read_text() for path in outputs if path.exists())
