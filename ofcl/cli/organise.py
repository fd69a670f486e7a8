"""The organiser's commands of `ofcl federation`: init, add, remove, renew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ofcl.cli.federation_options import Folder, Insecure
from ofcl.cli.terminal import out_console, say
from ofcl.engines.flower.records import check_flower
from ofcl.federation.server_side.enrolment import await_enrolment
from ofcl.federation.server_side.run_list import Runs
from ofcl.federation.setup import organiser
from ofcl.federation.setup.folders import Federation, is_loopback, load_server


def init(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    clients: Annotated[str, typer.Option(help="The parties, with commas between them.")],
    name: Annotated[str, typer.Option(help="The name of the federation.")] = "federation",
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address by which parties reach the server; may be repeated."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The server's port.")] = 8000,
) -> None:
    """Make the certificates, a key for each party, and a folder to hand to each."""
    check_flower()
    parties = tuple(party.strip() for party in clients.split(",") if party.strip())
    hosts = tuple(host or ["127.0.0.1"])
    organiser.create(folder, Federation(name, parties, hosts, port))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row(f"{folder}/server", "stays with the server: keys, and later its state")
    table.add_row(f"{folder}/authority", "signs certificates; put it away, nobody needs it now")
    for party in parties:
        table.add_row(f"{folder}/{party}", f"hand it to {party}, by a safe way")
    out_console.print(table, highlight=False)
    if all(map(is_loopback, hosts)):
        say("the server can be reached from this machine alone; for others, give --host")
    say(f"next, at the server: ofcl federation server {folder}")


def add(
    folder: Folder,
    party: Annotated[str, typer.Argument(help="The name of the new party.")],
    insecure: Insecure = False,
) -> None:
    """Make a key and a folder for one more party; runs that begin from now on have it."""
    check_flower()
    organiser.add_party(folder, party)
    out_console.print(f"{folder / party}: hand it to {party}, by a safe way", highlight=False)
    await_enrolment(load_server(folder), party, enrolled=True, insecure=insecure, tell=say)
    if Runs(load_server(folder)).going_on:
        say("the run that is going on is without it; the next one has it")


def remove(
    folder: Folder,
    party: Annotated[str, typer.Argument(help="Who leaves.")],
    insecure: Insecure = False,
) -> None:
    """Let a party take part no more: its key is refused, and no run waits for it."""
    check_flower()
    organiser.remove_party(folder, party)
    await_enrolment(load_server(folder), party, enrolled=False, insecure=insecure, tell=say)
    if Runs(load_server(folder)).going_on:
        say("the run that is going on still waits for it until: "
            f"ofcl federation stop {folder}; ofcl federation start {folder} --resume")  # fmt: skip


def renew(
    folder: Folder,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Other names or addresses of the server; may be repeated."),
    ] = None,
) -> None:
    """Make a new certificate for the server, signed by the folder's authority."""
    check_flower()
    organiser.renew(folder, host or ())
    say("renewed; a server that runs takes it within seconds, parties need nothing new")
    if host:
        say(f"they find it where it was handed out to them, or with --server {host[0]}:PORT")
