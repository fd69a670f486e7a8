"""A report of running runs, served to this machine alone and made anew when there is news."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ofcl.errors import OfclError
from ofcl.report.recorded_runs import find_runs

HOST = "127.0.0.1"


def fingerprint(paths: Sequence[Path]) -> str:
    """Computes a checksum of sizes and times of runs' files, which changes when a run goes on.

    Args:
        paths: Run directories, or folders of them.
    """
    digest = hashlib.sha256()
    for run in find_runs(paths):
        for name in ("settings.toml", "events.jsonl", "result.json", "checkpoint"):
            try:
                at = (run.path / name).stat()
            except FileNotFoundError:  # not there yet
                continue
            digest.update(f"{run.path} {name} {at.st_size} {at.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]


class Follower:
    """Keeps the page of some runs, and makes it again only when the runs have changed.

    Args:
        paths: Run directories, or folders of them.
        render: Makes the page as HTML.
    """

    def __init__(self, paths: Sequence[Path], render: Callable[[], str]) -> None:
        self._paths, self._render = paths, render
        self._lock = threading.Lock()
        self._tag, self._page = "", b""

    def page(self) -> tuple[str, bytes]:
        """Returns the page's ETag, which changes with the page, and the page itself as UTF-8."""
        with self._lock:
            tag = fingerprint(self._paths)
            if tag != self._tag:
                self._page = self._render().encode()
                self._tag = tag
            return self._tag, self._page


def serve(follower: Follower, port: int = 0) -> ThreadingHTTPServer:
    """Opens an HTTP server of the page, for this machine alone.

    Args:
        follower: Makes the page.
        port: The port; 0: any that is free.

    Returns:
        The server, which answers once its `serve_forever` is called.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers requests for the page."""

        def do_GET(self) -> None:
            """Sends the page; a short answer without it if the browser has this page already."""
            if self.path.split("?")[0] != "/":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            # A foreign page whose host name was made to resolve to this machine must not read it.
            if self.headers.get("Host", "").rsplit(":", 1)[0] not in (HOST, "localhost"):
                self.send_error(HTTPStatus.FORBIDDEN)
                return
            try:
                tag, page = follower.page()
            except (OfclError, OSError) as error:  # a run was moved, or is being written right now
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, str(error).encode(), "text/plain")
                return
            known = self.headers.get("If-None-Match") == tag
            status = HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK
            self._answer(status, b"" if known else page, "text/html", tag)

        def _answer(self, status: HTTPStatus, content: bytes, kind: str, tag: str = "") -> None:
            """Sends an HTTP response.

            Args:
                status: The HTTP status.
                content: The body; empty with the status `NOT_MODIFIED`.
                kind: The type of the body, such as `text/html`.
                tag: The page's ETag. A browser that asks again sends it back, and gets
                    `NOT_MODIFIED` if the page is still the same.
            """
            self.send_response(status)
            self.send_header("ETag", tag)
            self.send_header("Cache-Control", "no-store")
            if status != HTTPStatus.NOT_MODIFIED:
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the browser has closed the page
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Logs nothing: the terminal shows the address only."""

    return ThreadingHTTPServer((HOST, port), Handler)
