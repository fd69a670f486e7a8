"""The application without a server."""

import asyncio

import httpx
import pytest

import ofcl
from ofcl.inference.service.access_check import Access
from ofcl.inference.service.request_limits import Limits
from ofcl.inference.service.web_app import Service, make_app


@pytest.fixture
def model(vector_model):
    return ofcl.load(vector_model)


def ask(service, told, *paths):
    """The answers to requests, while the service is there."""

    async def ask_all():
        app = make_app(service, Access("127.0.0.1"), told.append)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = {"samples": [[1.0] * 8]}
            return [
                await (client.get(path) if path != "/predict" else client.post(path, json=body))
                for path in paths
            ]

    return asyncio.run(ask_all())


def test_an_unexpected_error_is_told_without_what_it_says(model, monkeypatch):
    def fail(samples, measure):
        raise RuntimeError("name of a patient")

    monkeypatch.setattr(model, "answer", fail)
    service, told = Service(model, Limits()), []
    failed, health = ask(service, told, "/predict", "/health")
    service.close()
    assert (failed.status_code, failed.json()) == (500, {"error": "an error of the service"})
    assert failed.headers["X-Content-Type-Options"] == "nosniff"
    assert health.json() == {"live": True, "ready": True}
    (line,) = told
    assert line.startswith("error: RuntimeError at ")
    assert "patient" not in line


def test_a_service_that_ends_is_not_ready(model):
    service = Service(model, Limits())
    service.worker.close()
    refused, health = ask(service, [], "/predict", "/health")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert (health.status_code, health.json()) == (503, {"live": True, "ready": False})


def test_values_that_are_no_numbers_are_null(model, monkeypatch):
    answer = model.answer

    def spoilt(samples, measure):
        found = answer(samples, measure=measure)
        found.uncertainty[:] = float("nan")
        return found

    monkeypatch.setattr(model, "answer", spoilt)
    service = Service(model, Limits())
    (predicted,) = ask(service, [], "/predict")
    service.close()
    assert predicted.json()[0]["uncertainty"] is None
