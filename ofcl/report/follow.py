"""A report of runs that go on, served to this machine alone and made anew when there is news."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "127.0.0.1"
_TOLD = {"events.jsonl", "settings.toml", "result.json", "state.json"}


def fingerprint(paths: Sequence[Path]) -> str:
    """What changes when there is news: names, sizes and times of what runs have written."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(p for p in path.rglob("*") if p.name in _TOLD):
            try:
                at = file.stat()
            except FileNotFoundError:  # an old checkpoint that has just been removed
                continue
            digest.update(f"{file} {at.st_size} {at.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]


class Follower:
    """Makes the page, and makes it again only when something has changed."""

    def __init__(self, paths: Sequence[Path], render: Callable[[], str]) -> None:
        self._paths, self._render = paths, render
        self._lock = threading.Lock()
        self._tag, self._page = "", b""

    def page(self) -> tuple[str, bytes]:
        """The page as of now, and a tag that changes with it."""
        with self._lock:
            tag = fingerprint(self._paths)
            if tag != self._tag:
                self._page = self._render().encode()
                self._tag = tag
            return self._tag, self._page


def serve(follower: Follower, port: int = 0) -> ThreadingHTTPServer:
    """A server of the page on this machine; port 0 is any that is free. It is not running yet."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.split("?")[0] != "/":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            tag, page = follower.page()
            known = self.headers.get("If-None-Match") == tag
            self.send_response(HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK)
            self.send_header("ETag", tag)
            self.send_header("Cache-Control", "no-store")
            if not known:
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            if not known:
                self.wfile.write(page)

        def log_message(self, *arguments: object) -> None:
            """The terminal is not for this."""

    return ThreadingHTTPServer((HOST, port), Handler)
