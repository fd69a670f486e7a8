"""`ofcl federation`: a federation between real parties, in a few commands."""

from __future__ import annotations

import typer

from ofcl.cli.federation_server import change, server, start, status, stop
from ofcl.cli.organise import add, init, remove, renew
from ofcl.cli.take_part import client
from ofcl.cli.watch_command import watch

app = typer.Typer(
    help="Learn together with other parties; everybody's samples stay where they are."
)
for command in (init, add, remove, renew, server, client, start, change, status, stop, watch):
    app.command()(command)
