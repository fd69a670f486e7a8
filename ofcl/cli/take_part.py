"""The parties' command of `ofcl federation`: client."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ofcl.cli.federation_options import Insecure, refuse_insecure
from ofcl.cli.terminal import say
from ofcl.engines.flower.records import check_flower
from ofcl.federation.party_side.kept_models import Keep
from ofcl.federation.party_side.participation import take_part
from ofcl.federation.setup.folders import load_party
from ofcl.settings import files as settings_files
from ofcl.storage.encryption import Seal


def client(
    folder: Annotated[Path, typer.Argument(help="The folder that this party was handed.")],
    dataset: Annotated[
        str, typer.Option(help="A dataset's name or path, watch:FOLDER, or - (JSONL).")
    ],
    share: Annotated[
        bool,
        typer.Option("--share", help="Learn only a share of it, as ofcl run deals it: a try-out."),
    ] = False,
    data_root: Annotated[
        str | None,
        typer.Option(help="Folder of the named datasets; default: OFCL_DATA or a cache."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Own table: column of the labels.")] = None,
    embedder: Annotated[
        str | None, typer.Option(help="Texts and images: the embedder, the same at all parties.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Streams: a file or folder to test on.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = None,
    no_class_counts: Annotated[
        bool,
        typer.Option("--no-class-counts", help="Never tell how many samples of a class there are."),
    ] = False,
    keep: Annotated[
        Keep,
        typer.Option(help="The model that this folder gets: of all parties, or your own."),
    ] = "global",
    local_too: Annotated[
        bool,
        typer.Option(
            "--local-too",
            help="Learn a second model from your data alone, to see whether taking part helps; "
            "takes twice the time. Nothing of it is sent.",
        ),
    ] = False,
    cross_site: Annotated[
        bool,
        typer.Option(
            "--cross-site",
            help="Agree to cross-site validation: the server hands your model to the others who "
            "agree, and you test theirs and tell how many of your test samples they get right.",
        ),
    ] = False,
    secure_only: Annotated[
        bool,
        typer.Option("--secure-only", help="Refuse runs whose server would see your updates."),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Go on with what is saved here, although the server knows of more.",
        ),
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="Encrypt what is saved here with the key in this file.")
    ] = None,
    server: Annotated[str | None, typer.Option(help="HOST:PORT; default: as handed out.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="How the data are read, as key=value; may be repeated."),
    ] = None,
    insecure: Insecure = False,
) -> None:
    """Take part as one party, until it is stopped; killed, it goes on when it is started again."""
    check_flower()
    here = load_party(folder)
    address = server or here.server
    if insecure:
        refuse_insecure(address.rpartition(":")[0])
    named = {"dataset": dataset, "data_root": data_root, "label": label, "test": test,
             "device": device, "embedder": embedder}  # fmt: skip
    values = {name: value for name, value in named.items() if value is not None}
    values |= dict(map(settings_files.parse_override, set_ or []))
    seal = Seal.from_file(key_file) if key_file else None
    take_part(
        here,
        values,
        leaving=_set_by_signals(),
        share=share,
        class_counts=not no_class_counts,
        keep=keep,
        local_too=local_too,
        cross_site=cross_site,
        secure_only=secure_only,
        accept_loss=accept_loss,
        seal=seal,
        address=address,
        insecure=insecure,
        tell=_log_of(here.party),
    )


def _log_of(party: str) -> Callable[[str], None]:
    """Makes a function that prints lines with the time and the party's name."""

    def tell(text: str) -> None:
        say(f"{time.strftime('%H:%M:%S')} {party}: {text}")

    return tell


def _set_by_signals() -> threading.Event:
    """Makes an event that Ctrl-C and SIGTERM set before they end the process."""
    leaving = threading.Event()

    def leave(number: int, frame: Any) -> None:
        leaving.set()
        raise SystemExit(0 if number == signal.SIGTERM else 130)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    return leaving
