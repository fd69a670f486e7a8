"""Access: who may ask. A token, the names of this machine, and no other site's pages."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from ofcl.errors import OfclError
from ofcl.federation.setup.folders import is_loopback
from ofcl.inference.service.replies import Refused, refuse
from ofcl.storage.private_files import others_can_read

VARIABLE = "OFCL_TOKEN"
SHORTEST = 16

OPEN = {"/", "/docs", "/web/style.css", "/web/page.js", "/web/docs.js", "/openapi.json", "/health"}
"""Paths that need no token: they say nothing about the model."""


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Args:
        host: The address that the service listens on.
        token: The token that every request must show; None: it needs none.
    """

    host: str
    token: str | None = None

    def check(self, path: str, headers: dict[bytes, bytes]) -> None:
        """Checks a request by its headers.

        Args:
            path: The path that it asks for.
            headers: Its headers, with names in lower case.

        Raises:
            Refused: It may not ask.
        """
        host = headers.get(b"host", b"").decode("latin-1")
        # A foreign page whose host name was made to resolve to this machine must not ask.
        if is_loopback(self.host) and not is_loopback(_name(host)):
            raise Refused(403, "the Host header does not name this machine")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            raise Refused(403, "pages of other sites may not ask")
        if headers.get(b"sec-fetch-site") == b"cross-site" and path not in OPEN:
            raise Refused(403, "pages of other sites may not ask")
        if self.token is None or path in OPEN:
            return
        shown = headers.get(b"authorization", b"")
        if not hmac.compare_digest(shown, b"Bearer " + self.token.encode()):
            raise Refused(401, "a token is needed: send the header 'Authorization: Bearer TOKEN'")


class Checked:
    """Passes requests on to an application, if they may ask.

    Args:
        app: The application.
        access: Who may ask.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request.

        Args:
            scope: The request's line and headers.
            receive: Gives the parts of its body.
            send: Takes the parts of the answer.
        """
        if scope["type"] == "http":
            try:
                self._access.check(scope["path"], dict(scope["headers"]))
            except Refused as refused:
                await refuse(refused, send, receive)
                return
        await self._app(scope, receive, send)


def read_token(file: Path | None, host: str) -> str | None:
    """Reads the token of the service, from a file or the environment.

    Args:
        file: The file of the token; None: the variable `OFCL_TOKEN` has it, if there is one.
        host: The address to listen on.

    Raises:
        OfclError: The file cannot be used, the token is too short, or there is none although other
            machines reach the address.
    """
    token = _token_in(file) if file is not None else os.environ.get(VARIABLE, "").strip()
    if not token and file is None and is_loopback(host):
        return None
    if not token and file is None:
        raise OfclError(
            f"other machines can reach '{host}', so a token is needed: --token-file FILE or the "
            f"variable {VARIABLE}. Make one: (umask 077; openssl rand -hex 32 > FILE)"
        )
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise OfclError(
            f"the token has {len(token)} characters; expected at least {SHORTEST}, of ASCII and "
            "without spaces. Make one: (umask 077; openssl rand -hex 32 > FILE)"
        )
    return token


def _token_in(file: Path) -> str:
    """Reads a token from a file that only its owner can read."""
    try:
        if others_can_read(file):
            raise OfclError(
                f"others can read or change the token's file '{file}'; "
                f"mend it with: chmod 600 {file}"
            )
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OfclError(f"the token's file '{file}' cannot be read: {error}") from None


def _name(host: str) -> str:
    """Returns the name in a Host header, without the port."""
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else \
        host.rpartition(":")[0] or host  # fmt: skip
