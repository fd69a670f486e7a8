"""`ofcl serve`: answers HTTP requests with a model."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from ofcl.bundle.trained_model import TrainedModel
from ofcl.cli.model_options import (
    Device,
    EmbedderName,
    KeyFile,
    Model,
    Resize,
    TextColumn,
    open_model,
)
from ofcl.cli.shared_options import Allow
from ofcl.cli.terminal import out_console, say, warn
from ofcl.data.sample_forms import ImageForm, TextForm
from ofcl.errors import OfclError
from ofcl.federation.setup.folders import is_loopback

NEEDED = ("fastapi", "uvicorn", "python_multipart")


def serve_model(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine need "
                                      "a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File (mode 600) of the token; else $OFCL_TOKEN.")
    ] = None,
    certfile: Annotated[Path | None, typer.Option(help="Certificate, for TLS.")] = None,
    keyfile: Annotated[Path | None, typer.Option(help="Private key, for TLS.")] = None,
    device: Device = "auto",
    resize: Resize = False,
    embedder: EmbedderName = None,
    text: TextColumn = None,
    key_file: KeyFile = None,
    allow: Allow = None,
    max_body: Annotated[float, typer.Option(min=0.001, help="MiB of a request.")] = 16,
    max_samples: Annotated[int, typer.Option(min=1, help="Samples of a request.")] = 1000,
    max_pixels: Annotated[int, typer.Option(min=1, help="Pixels of an image.")] = 25_000_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time of a request.")] = 30,
    queue: Annotated[int, typer.Option(min=1, help="Samples that may wait.")] = 4096,
) -> None:  # fmt: skip
    """Serve a model over HTTP: predictions, health, metrics, and a page to drop files on."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise OfclError(
            f"ofcl serve needs the package {missing[0]}; install it with: pip install 'ofcl[serve]'"
        )
    from ofcl.inference.service.access_check import Access, read_token
    from ofcl.inference.service.http_server import Certificate, open_socket, run_server
    from ofcl.inference.service.request_limits import MIB, Limits
    from ofcl.inference.service.web_app import Service, make_app

    token = read_token(token_file, host)
    if (certfile is None) != (keyfile is None):
        raise OfclError("--certfile and --keyfile are given together, or none of them")
    certificate = Certificate(certfile, keyfile) if certfile and keyfile else None
    limits = Limits(int(max_body * MIB), max_samples, max_pixels, seconds, queue)
    opened = open_model(
        model,
        device,
        resize=resize,
        embedder=embedder,
        text=text,
        key_file=key_file,
        allow=allow,
    )
    _warm_up(opened)
    with contextlib.closing(open_socket(host, port)) as at:
        service = Service(opened, limits, resize)
        app = make_app(service, Access(host, token), say)
        scheme, chosen = "https" if certificate else "http", at.getsockname()[1]
        if not certificate and not is_loopback(host):
            warn("without --certfile, others on the way can read the token and the samples")
        shown = f"[{host}]" if ":" in host.strip("[]") and not host.startswith("[") else host
        out_console.print(f"{scheme}://{shown}:{chosen}/ (Ctrl-C ends it)", highlight=False)
        run_server(app, at, limits, certificate)
    say("ended")


def _warm_up(model: TrainedModel) -> None:
    """Predicts once, so that what is missing is found out now, and the first request is not slow.

    Args:
        model: The model.
    """
    form = model.description.samples
    if isinstance(form, TextForm):
        model.answer(["a text"])
    elif isinstance(form, ImageForm):  # the whole way: an embedder may come before the network
        model.answer(np.zeros((1, *form.shape), dtype=np.uint8))
    else:
        model.answer_prepared(torch.zeros(1, *form.shape, device=model.device))
