"""Many requests at once, and an end in the middle of them."""

import asyncio
import json
import re
import signal
import time

import httpx

from tests.inference.service.conftest import served
from tests.support.commands import in_one_process

pytestmark = in_one_process


async def ask_once(address, body):
    """Asks once, on a connection of its own; gives the status, the headers and the answer."""
    host, port = address.removeprefix("http://").split(":")
    head = (f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")  # fmt: skip
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    headers, _, content = answer.partition(b"\r\n\r\n")
    return int(headers.split()[1]), headers.decode().lower(), json.loads(content)


async def ask_often(address, times, body):
    """Asks many times at once, without a client's library, which would need most of the time."""
    data = json.dumps(body).encode()
    return await asyncio.gather(*(ask_once(address, data) for _ in range(times)))


def test_a_thousand_requests_at_once(vector_model):
    body = {"samples": [[0.5] * 8]}
    with served(vector_model) as service:
        with service.client() as client:
            wanted = client.post("/predict", json=body).json()[0]["label"]
            before = service.memory()
            found = asyncio.run(ask_often(service.address, 1000, body))
            lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
        assert [status for status, _, _ in found] == [200] * 1000
        assert {answer[0]["label"] for _, _, answer in found} == {wanted}
        assert int(lines["ofcl_samples_total"]) == 1001
        assert int(lines["ofcl_batches_total"]) < 700  # they were joined
        assert service.memory() < before + 150


def test_more_than_can_wait_is_sent_away(image_model):
    body = {"samples": [[[0] * 8] * 8] * 50}
    with served(image_model, "--queue", 60) as service:
        found = asyncio.run(ask_often(service.address, 30, body))
        with service.client() as client:
            assert client.post("/predict", json=body).status_code == 200
    assert {status for status, _, _ in found} == {200, 503}
    _, headers, answer = next(one for one in found if one[0] == 503)
    assert "retry-after: 1\r\n" in headers
    assert "samples wait already" in answer["error"]


def test_the_end_comes_after_the_answers(image_model):
    body = {"samples": [[[0] * 8] * 8] * 100}

    async def end_in_the_middle(service):
        asking = asyncio.ensure_future(ask_often(service.address, 40, body))
        running = done = 0
        async with httpx.AsyncClient(base_url=service.address, trust_env=False) as client:
            while running + done < 40:
                text = (await client.get("/metrics")).text
                running = int(re.search(r"^ofcl_requests_running (\d+)", text, re.M)[1]) - 1
                done = int((re.search(r'/predict",status="200"} (\d+)', text) or [0, 0])[1])
        assert running > 0
        service.command.send(signal.SIGTERM)
        return await asking

    with served(image_model) as service:
        found = asyncio.run(end_in_the_middle(service))
        for _ in range(200):
            if not service.command.running:
                break
            time.sleep(0.05)
    assert [status for status, _, _ in found] == [200] * 40
    assert all(len(answer) == 100 for _, _, answer in found)


def test_nothing_of_a_request_is_printed(vector_model):
    with served(vector_model) as service, service.client() as client:
        client.post("/predict?top=3&who=patient-name", json={"samples": ["patient-name"]})
        client.get("/patient-name", headers={"X-Name": "patient-name"})
        outputs = service.command._outputs
        service.command.send(signal.SIGINT)  # Ctrl-C ends it as SIGTERM does
    assert not any("patient" in path.read_text() for path in outputs if path.exists())
