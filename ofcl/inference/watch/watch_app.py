"""The page to watch a federation as a web application: read-only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ofcl.errors import OfclError
from ofcl.federation.setup.folders import FILE, PARTY_FILE
from ofcl.federation.status_file import Facts
from ofcl.inference.service.access_check import Access, Checked
from ofcl.inference.service.observed import Observed
from ofcl.inference.service.prometheus import Numbers
from ofcl.inference.service.request_limits import Limited, Limits
from ofcl.inference.watch.federation_metrics import metrics_text
from ofcl.inference.watch.party_facts import PartyFacts
from ofcl.inference.watch.server_facts import ServerFacts

LIMITS = Limits(body_bytes=1024, seconds=20.0, connections=100)
"""Nobody sends anything to this page."""

WEB = {
    "/": ("watch.html", "text/html"),
    "/web/style.css": ("watch.css", "text/css"),
    "/web/page.js": ("watch.js", "text/javascript"),
}
"""The files of the page, by path; they need no token (`access_check.OPEN`) and say nothing."""


class Source(Protocol):
    """A collector of facts."""

    def collect(self) -> Facts:
        """Collects the facts as they are now."""


def source_of(folder: Path) -> Source:
    """Chooses whose facts a folder has: the server's, or a party's.

    Args:
        folder: The folder of a federation, or of a party.

    Raises:
        OfclError: If it is neither.
    """
    if (folder / FILE).exists():
        return ServerFacts(folder)
    if (folder / PARTY_FILE).exists():
        return PartyFacts(folder)
    raise OfclError(
        f"'{folder}' is neither a federation ({FILE}) nor a party's folder ({PARTY_FILE}): give "
        "the one that 'ofcl federation init' has made, or that the organiser has handed out"
    )


def make_watch_app(source: Source, access: Access, tell: Callable[[str], None]) -> ASGIApp:
    """Makes the web application.

    Args:
        source: Collects the facts.
        access: Who may ask.
        tell: Prints a line for who runs the page.
    """
    one_at_a_time = asyncio.Lock()

    async def collected() -> Facts:
        async with one_at_a_time:  # reading the events on is for one thread
            return await asyncio.to_thread(source.collect)

    async def facts(request: Request) -> Response:
        return JSONResponse(await collected())

    async def metrics(request: Request) -> Response:
        text = metrics_text(await collected())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def health(request: Request) -> Response:
        return JSONResponse({"live": True})

    answers = {"/facts": facts, "/metrics": metrics, "/health": health}
    routes = [Route(path, answer) for path, answer in answers.items()]
    routes += [_file(path, name, kind) for path, (name, kind) in WEB.items()]
    app = Limited(Starlette(routes=routes), LIMITS)
    return Observed(Checked(app, access), {*answers, *WEB}, Numbers(), tell)


def _file(path: str, name: str, kind: str) -> Route:
    """Makes the route of a file of the page; it is read once."""
    content = (resources.files(__package__) / "web" / name).read_bytes()

    async def file(request: Request) -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8")

    return Route(path, file)
