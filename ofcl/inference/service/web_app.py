"""The service as a web application: its routes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from ofcl.bundle.trained_model import TrainedModel
from ofcl.compute.batching import forward_size
from ofcl.errors import OfclError
from ofcl.inference.service.access_check import Access, Checked
from ofcl.inference.service.answer_json import answers_as_json, model_facts
from ofcl.inference.service.batch_worker import BatchWorker
from ofcl.inference.service.observed import Observed
from ofcl.inference.service.open_api import BODY, Answer, Health
from ofcl.inference.service.prometheus import Numbers
from ofcl.inference.service.replies import Refused
from ofcl.inference.service.request_limits import Limited, Limits
from ofcl.inference.service.request_samples import SampleDecoder
from ofcl.inference.service.uploads import read_uploads
from ofcl.version import __version__

T = TypeVar("T")

WEB = {
    "/": ("page.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/web/style.css": ("style.css", "text/css"),
    "/web/page.js": ("page.js", "text/javascript"),
    "/web/docs.js": ("docs.js", "text/javascript"),
}
"""The files of the pages, by path."""


class Service:
    """Answers requests with a model.

    Args:
        model: The model.
        limits: How much a request may ask for.
        resize: Whether images of another size are resized even if the model has not learned from
            resized ones.
    """

    def __init__(self, model: TrainedModel, limits: Limits, resize: bool = False) -> None:
        form, classes = model.description.samples, len(model.labels)
        self.labels, self.limits = model.labels, limits
        self.most = limits.samples_of(form.shape, classes)
        self.facts = model_facts(model.description) | {
            "limits": {
                "body_bytes": limits.body_bytes,
                "samples": self.most,
                "pixels": limits.pixels,
                "seconds": limits.seconds,
            },
            "takes": form.words(),
        }
        self.decoder = SampleDecoder(form, resize, self.most, limits.pixels, limits.seconds)
        self._threads = ThreadPoolExecutor(min(2, os.cpu_count() or 1), "decode")
        self.numbers = Numbers()
        self.worker = BatchWorker(
            lambda samples, measure: model.answer(samples, measure=measure),
            batch=min(forward_size(model.device), self.most),
            queue=limits.queue_of(form.shape, classes),
            count=self.numbers.batch,
        )
        self.numbers.gauge("queue_samples", lambda: self.worker.waiting)

    async def aside(self, work: Callable[[], T]) -> T:
        """Runs work in a thread, so that the event loop goes on.

        Args:
            work: The work.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def predict(self, request: Request, top: int, measure: bool) -> bytes:
        """Answers the samples of a request as JSON.

        Args:
            request: The request.
            top: How many of the likeliest labels are listed.
            measure: Whether uncertainty is measured too.

        Raises:
            Refused: It cannot be answered.
            OfclError: A sample does not fit.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            body = await request.body()
            samples = await self.aside(lambda: self.decoder.from_json(body))
        elif kind == "multipart/form-data":
            uploads = await read_uploads(request, self.most, self.limits.body_bytes)
            samples = await self.aside(lambda: self.decoder.from_files(uploads))
        else:
            raise Refused(415, "expected application/json or multipart/form-data")
        if not len(samples):
            return b"[]"
        answers = await asyncio.wrap_future(self.worker.submit(samples, measure))
        return await self.aside(lambda: answers_as_json(answers, self.labels, top))

    def close(self) -> None:
        """Answers what waits, and ends the threads."""
        self.worker.close()
        self._threads.shutdown()


def make_app(service: Service, access: Access, tell: Callable[[str], None]) -> ASGIApp:
    """Makes the web application.

    Args:
        service: Answers requests.
        access: Who may ask.
        tell: Prints a line for who runs the service.
    """
    app = FastAPI(
        title="ofcl serve",
        version=__version__,
        description="GET /model says which labels and samples the model knows.",
        docs_url=None,  # FastAPI's pages load scripts from another site
        redoc_url=None,
        lifespan=_lifespan(service),
    )
    _add_routes(app, service)
    for path, (name, kind) in WEB.items():
        _add_file(app, path, name, kind)
    _add_errors(app)
    limited = Limited(app, service.limits)
    service.numbers.gauge("bodies_bytes", lambda: limited.held)
    return Observed(Checked(limited, access), {*WEB, *ROUTES}, service.numbers, tell)


ROUTES = ("/predict", "/model", "/health", "/metrics", "/openapi.json")


def _lifespan(service: Service) -> Callable[[FastAPI], Any]:
    """Makes the function that ends the service's threads at the end."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    return lifespan


def _add_routes(app: FastAPI, service: Service) -> None:
    """Adds the routes of the service to an application."""

    @app.post("/predict", openapi_extra=BODY, response_model=list[Answer])
    async def predict(
        request: Request,
        top: Annotated[int, Query(ge=0, le=100, description="How many labels are listed.")] = 3,
        uncertainty: Annotated[bool, Query(description="Measure it; takes longer.")] = True,
    ) -> Response:
        """Predict samples: JSON, or uploaded images or tables."""
        return Response(await service.predict(request, top, uncertainty), 200,
                        media_type="application/json")  # fmt: skip

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """Describe the model: labels, samples that it takes, how it was learned, limits."""
        return service.facts

    @app.get("/health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        """Tell whether the service lives, and is ready to predict."""
        ready = service.worker.ready
        response.status_code = 200 if ready else 503
        return Health(live=True, ready=ready)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Count requests, samples and seconds, in Prometheus's text format."""
        return Response(service.numbers.text(), media_type="text/plain; version=0.0.4")


def _add_file(app: FastAPI, path: str, name: str, kind: str) -> None:
    """Adds a file of the pages to an application; it is read once."""
    content = (resources.files(__package__) / "web" / name).read_bytes()

    @app.get(path, include_in_schema=False)
    async def file() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")


def _add_errors(app: FastAPI) -> None:
    """Lets all errors be answered in the same form."""

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return JSONResponse({"error": error.reason}, error.status, error.headers())

    def unfit(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg']}"}, 422)

    def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    def failed(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "an error of the service"}, 500)  # `Observed` tells of it

    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(OfclError, unfit)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, unknown)
