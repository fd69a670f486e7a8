"""`ofcl federation watch`: a page to watch a federation, at the server or at a party."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from ofcl.cli.terminal import out_console, say, warn
from ofcl.errors import OfclError
from ofcl.federation.setup.folders import bracketed, is_loopback

NEEDED = ("starlette", "uvicorn")


def watch(
    folder: Annotated[
        Path, typer.Argument(help="The federation's folder at the server, or a party's folder.")
    ],
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; others than this machine need a token."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8010,
    token_file: Annotated[
        Path | None, typer.Option(help="File (mode 600) of the token; else $OFCL_TOKEN.")
    ] = None,
    certfile: Annotated[Path | None, typer.Option(help="Certificate, for TLS.")] = None,
    keyfile: Annotated[Path | None, typer.Option(help="Private key, for TLS.")] = None,
) -> None:
    """Show a page of how the federation is: read-only, live, with numbers for Prometheus."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise OfclError(
            f"ofcl federation watch needs the package {missing[0]}; install it with: "
            "pip install 'ofcl[serve]'"
        )
    from ofcl.inference.service.access_check import Access, read_token
    from ofcl.inference.service.http_server import Certificate, open_socket, run_server
    from ofcl.inference.watch.watch_app import LIMITS, make_watch_app, source_of

    token = read_token(token_file, host)
    if (certfile is None) != (keyfile is None):
        raise OfclError("--certfile and --keyfile are given together, or none of them")
    certificate = Certificate(certfile, keyfile) if certfile and keyfile else None
    source = source_of(folder)
    with contextlib.closing(open_socket(host, port)) as at:
        app = make_watch_app(source, Access(host, token), say)
        if not certificate and not is_loopback(host):
            warn("without --certfile, others on the way can read the token and the page")
        scheme, chosen = "https" if certificate else "http", at.getsockname()[1]
        shown = bracketed(host.strip("[]"))
        out_console.print(f"{scheme}://{shown}:{chosen}/ (Ctrl-C ends it)", highlight=False)
        run_server(app, at, LIMITS, certificate)
    say("ended")
