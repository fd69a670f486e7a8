"""Arguments and checks that several commands of `ofcl federation` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ofcl.cli.terminal import warn
from ofcl.errors import OfclError
from ofcl.federation.setup.folders import is_loopback

Folder = Annotated[
    Path, typer.Argument(help="The folder of the federation (ofcl federation init).")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Without TLS; only on one machine, to try things out.")
]


def refuse_insecure(host: str) -> None:
    """Refuses `--insecure` for a host that other machines can reach; else warns of it.

    Args:
        host: The host to listen on, or the server's host.

    Raises:
        OfclError: If other machines can reach the host.
    """
    if not is_loopback(host):
        raise OfclError(
            f"--insecure is for this machine alone, and '{host}' is not: anybody on the way could "
            "read and change the models. Leave it out: certificates and keys are there"
        )
    warn("--insecure: nothing is encrypted; this machine alone")
