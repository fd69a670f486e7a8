"""`ofcl federation`: a federation between real parties, in a few commands."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ofcl.cli.run_loop import drive
from ofcl.cli.serving import await_server, check_port, quiet_but_for, watch
from ofcl.cli.show import percent, print_result
from ofcl.cli.terminal import out_console, say, warn
from ofcl.engines.flower.records import check_flower
from ofcl.errors import OfclError
from ofcl.experiment import Run
from ofcl.federation.party_side.participation import take_part
from ofcl.federation.server_side.flower_messages import FlowerTransport
from ofcl.federation.server_side.flower_server import control, nodes
from ofcl.federation.server_side.flower_server import serve as serve_link
from ofcl.federation.server_side.run_list import Runs
from ofcl.federation.server_side.stage import FederationStage, run_settings
from ofcl.federation.setup import folders, organiser
from ofcl.federation.setup.folders import Federation, load_party, load_server
from ofcl.settings import files as settings_files
from ofcl.storage.encryption import Seal
from ofcl.storage.run_directory import RunDirectory

app = typer.Typer(
    help="Learn together with other parties; everybody's samples stay where they are."
)

STOPPING = 60.0  # seconds that a run may take to save and end

Folder = Annotated[
    Path, typer.Argument(help="The folder of the federation (ofcl federation init).")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Without TLS; only on one machine, to try things out.")
]


@app.command()
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
    if all(map(folders.is_loopback, hosts)):
        say("the server can be reached from this machine alone; for others, give --host")
    say(f"next, at the server: ofcl federation server {folder}")


@app.command()
def add(
    folder: Folder,
    party: Annotated[str, typer.Argument(help="The name of the new party.")],
    insecure: Insecure = False,
) -> None:
    """Make a key and a folder for one more party; runs that begin from now on have it."""
    check_flower()
    organiser.add_party(folder, party)
    out_console.print(f"{folder / party}: hand it to {party}, by a safe way", highlight=False)
    await_server(load_server(folder), party, enrolled=True, insecure=insecure)
    if Runs(load_server(folder)).going_on:
        say("the run that is going on is without it; the next one has it")


@app.command()
def remove(
    folder: Folder,
    party: Annotated[str, typer.Argument(help="Who leaves.")],
    insecure: Insecure = False,
) -> None:
    """Let a party take part no more: its key is refused, and no run waits for it."""
    check_flower()
    organiser.remove_party(folder, party)
    await_server(load_server(folder), party, enrolled=False, insecure=insecure)
    if Runs(load_server(folder)).going_on:
        say("the run that is going on still waits for it until: "
            f"ofcl federation stop {folder}; ofcl federation start {folder} --resume")  # fmt: skip


@app.command()
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
    say("renewed; start the server again, parties need nothing new")
    if host:
        say(f"they find it where it was handed out to them, or with --server {host[0]}:PORT")


@app.command()
def server(
    folder: Folder,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; default: all, or this machine if it is alone."),
    ] = None,
    insecure: Insecure = False,
) -> None:
    """Run the server, until it is stopped; it forgets nothing when it is started again."""
    check_flower()
    here = load_server(folder)
    alone = insecure or all(map(folders.is_loopback, here.federation.hosts))
    host = host or ("127.0.0.1" if alone else "0.0.0.0")
    if insecure:
        _refuse_insecure(host)
    here.listen_on(host)
    check_port(host, here.federation.port)
    if not insecure and (expiry := here.expiry()):
        warn(expiry)
    log = here.folder / "server" / "server.log"
    ready = threading.Event()
    with quiet_but_for(log) as console:
        threading.Thread(
            target=watch, args=(here, insecure, ready, console), name="status", daemon=True
        ).start()
        try:
            serve_link(here, host, ready, insecure=insecure)
        except SystemExit as error:
            if error.code not in (0, None):
                console.print(f"error: the server has ended; '{log}' says why", style=None)
            raise


@app.command()
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
    test: Annotated[str | None, typer.Option(help="Streams: a file or folder to test on.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    no_class_counts: Annotated[
        bool,
        typer.Option("--no-class-counts", help="Never tell how many samples of a class there are."),
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
        _refuse_insecure(address.rpartition(":")[0])
    named = {"dataset": dataset, "data_root": data_root, "label": label, "test": test,
             "device": device}  # fmt: skip
    values = {name: value for name, value in named.items() if value is not None}
    values |= dict(map(settings_files.parse_override, set_ or []))
    seal = Seal.from_file(key_file) if key_file else None
    tell = _telling(here.party)
    leaving = _leaving_when_told()
    take_part(
        here,
        values,
        leaving=leaving,
        share=share,
        class_counts=not no_class_counts,
        seal=seal,
        address=address,
        insecure=insecure,
        tell=tell,
    )


@app.command()
def start(
    folder: Folder,
    settings: Annotated[
        str | None, typer.Argument(help="A settings file, or a preset's name.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the last run; with SETTINGS: if there is one."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory; default: a new one.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting as key=value; may be repeated."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    insecure: Insecure = False,
) -> None:
    """Start a run between the parties, at the server; it is over when every stream has ended."""
    check_flower()
    here = load_server(folder)
    runs = Runs(here)
    with runs.only():
        last = runs.unfinished() if resume else None
        if resume and last is None and not settings:
            raise OfclError("no run is there to go on with; start one: ofcl federation start "
                            f"{folder} SETTINGS.toml")  # fmt: skip
        if last is not None:
            path = last.path
            made = last.settings()
            if set_ or out:
                warn(f"going on with {path} as it was begun: --set and --out are not used")
        else:
            made = run_settings(
                here.federation,
                {
                    **(settings_files.load_settings(settings) if settings else {}),
                    **dict(map(settings_files.parse_override, set_ or [])),
                },
            )
            path = out or runs.new_directory()
            RunDirectory(path).check_new()
        lasting = {"lasting": 2 * made.round_timeout} if made.round_timeout else {}
        with contextlib.closing(FlowerTransport(here, insecure=insecure, **lasting)) as transport:
            stage = FederationStage(here.federation, folder, transport)
            started = (
                Run.resume(path, tell=say, stage=stage)
                if last is not None
                else Run(made, out=path, stage=stage, tell=say)
            )
            runs.begin(path)  # not before it has begun: the one before can be gone on with
            print_result(out_console, drive(started, quiet))
        if (cost := started.epsilon()) is not None:
            told = f"ε {cost:.2f} at δ {made.dp_delta:g}"
            out_console.print(f"privacy: what each party sent, {told}", highlight=False)
        say(f"saved in {path}")


@app.command()
def status(folder: Folder, insecure: Insecure = False) -> None:
    """Tell who is connected, and how far the run is."""
    check_flower()
    import httpx

    here = load_server(folder)
    table = Table("party", "state", "since", box=None, pad_edge=False)
    try:
        found = nodes(control(here, insecure=insecure))
    except httpx.TransportError:
        found = {}
        say(f"no server at {here.here}: ofcl federation server {folder}")
    if not insecure and (expiry := here.expiry()):
        warn(expiry)
    for party in here.federation.present:
        node = found.get(party)
        state = node.status if node else "unknown"
        online = node is not None and state == "online"
        since = (node.last_activated_at if online else node.last_deactivated_at) if node else ""
        table.add_row(party, state, since[:19].replace("T", " "))
    for party in here.federation.left:
        table.add_row(party, "has left", "")
    out_console.print(table, highlight=False)
    runs = Runs(here)
    run = runs.last()
    if run is None:
        out_console.print("no run yet", highlight=False)
        return
    rounds = sum(event["event"] == "round" for event in run.events()) if run.started() else 0
    result = run.result() if run.started() else None
    going = "going on" if runs.going_on else "stopped: ofcl federation start --resume"
    state = f"finished, A {percent(result.A)}" if result else going
    out_console.print(f"{run.path}: {rounds} rounds, {state}", highlight=False, soft_wrap=True)


@app.command()
def stop(folder: Folder) -> None:
    """Stop the run that is going on, after its state has been saved; the server stays up."""
    runs = Runs(load_server(folder))
    if not runs.going_on:
        raise OfclError("no run is going on")
    os.kill(runs.process, signal.SIGTERM)
    until = time.monotonic() + STOPPING
    while runs.going_on:
        if time.monotonic() > until:
            raise OfclError("the run has not ended yet; look again with: ofcl federation status")
        time.sleep(0.1)
    if runs.unfinished() is None:
        say("stopped; nobody had been asked yet, so there is nothing to go on with")
    else:
        say(f"stopped; go on with: ofcl federation start {folder} --resume")


def _refuse_insecure(host: str) -> None:
    if not folders.is_loopback(host):
        raise OfclError(
            f"--insecure is for this machine alone, and '{host}' is not: anybody on the way could "
            "read and change the models. Leave it out: certificates and keys are there"
        )
    warn("--insecure: nothing is encrypted; this machine alone")


def _telling(party: str) -> Any:
    def tell(text: str) -> None:
        say(f"{time.strftime('%H:%M:%S')} {party}: {text}")

    return tell


def _leaving_when_told() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set before they end the process."""
    leaving = threading.Event()

    def leave(number: int, frame: Any) -> None:
        leaving.set()
        raise SystemExit(0 if number == signal.SIGTERM else 130)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    return leaving
