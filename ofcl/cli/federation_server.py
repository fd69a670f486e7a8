"""The server's commands of `ofcl federation`: server, start, status, stop."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ofcl.cli.federation_options import Folder, Insecure, refuse_insecure
from ofcl.cli.logs import as_line
from ofcl.cli.run_loop import drive
from ofcl.cli.show import percent, print_cross_site, print_result
from ofcl.cli.terminal import out_console, say, warn
from ofcl.engines.changes import in_words
from ofcl.engines.flower.records import check_flower
from ofcl.errors import OfclError, unknown
from ofcl.experiment import Run
from ofcl.federation.server_side.alias_table import load_aliases
from ofcl.federation.server_side.flower_control import FlowerControl, Node, ServerUnreachable
from ofcl.federation.server_side.noted_transport import NotedTransport
from ofcl.federation.server_side.orders import Orders
from ofcl.federation.server_side.reconnecting import until_over
from ofcl.federation.server_side.run_list import Runs
from ofcl.federation.server_side.run_status import RunStatus
from ofcl.federation.server_side.server_process import default_host, run_server
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import ServerFolder, load_server
from ofcl.federation.setup.organiser import ensure_signing_key
from ofcl.federation.transport_choice import open_transport
from ofcl.settings import files as settings_files
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory


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
    host = host or default_host(here, insecure=insecure)
    if insecure:
        refuse_insecure(host)
    run_server(here, host, insecure=insecure, tell=say, line=as_line)


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
    readmit: Annotated[
        list[str] | None,
        typer.Option(help="With --resume: let a party in quarantine in again; may be repeated."),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="With --resume: go back to an earlier global model.")
    ] = False,
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
            path, made = last.path, last.settings()
            if set_ or out:
                warn(f"going on with {path} as it was begun: --set and --out are not used")
        else:
            made = _settings(here, settings, set_ or [])
            path = out or runs.new_directory()
            RunDirectory(path).check_new()
        if remark := ensure_signing_key(folder):
            warn(remark)
        noted, known = RunStatus(here, path), _known(here, readmit)
        tell = noted.told(say)

        def attempt(first: bool) -> Run:
            transport = open_transport(here, insecure=insecure, round_timeout=made.round_timeout)
            with contextlib.closing(transport):
                stage = FederationStage(
                    here.federation,
                    folder,
                    NotedTransport(transport, noted),
                    readmitted=known,
                    back=back and first,
                    aliases=load_aliases(folder),
                    introduced=noted.introduced,
                    orders=Orders(path).read,
                )
                if RunDirectory(path).started():
                    run = Run.resume(path, tell=tell, stage=stage)
                else:
                    run = Run(made, out=path, stage=stage, tell=tell)
                runs.begin(path)  # not before it has begun: the one before can be gone on with
                with noted.going_on(run.epsilon):
                    result = drive(run, quiet)
                print_result(out_console, result)
                print_cross_site(out_console, result, here.federation.parties)
            return run

        run = until_over(attempt, tell)
        if (cost := run.epsilon()) is not None:
            privacy = f"what each party sent, ε {cost:.2f} at δ {made.dp_delta:g}"
            out_console.print(f"privacy: {privacy}", highlight=False)
        say(f"saved in {path}")


def _known(here: ServerFolder, parties: list[str] | None) -> list[str]:
    """Gives the names of parties back; raises an error if one is no party of the federation."""
    for party in parties or []:
        if party not in here.federation.parties:
            raise unknown("party", party, here.federation.parties)
    return parties or []


def _settings(here: ServerFolder, name: str | None, overrides: list[str]) -> Settings:
    """Makes the settings of a run between parties.

    Args:
        here: The server's folder, with the federation.
        name: A settings file, or a preset's name; None: neither was given.
        overrides: The values of `--set`, as they were typed.
    """
    values = settings_files.load_settings(name) if name else {}
    values = {**values, **dict(map(settings_files.parse_override, overrides))}
    return run_settings(here.federation, values)


def status(folder: Folder, insecure: Insecure = False) -> None:
    """Tell who is connected, and how far the run is."""
    check_flower()
    here = load_server(folder)
    try:
        nodes = FlowerControl(here, insecure=insecure).nodes()
    except ServerUnreachable:
        nodes = {}
        say(f"no server at {here.here}: ofcl federation server {folder}")
    if not insecure and (expiry := here.expiry()):
        warn(expiry)
    out_console.print(_party_table(here, nodes), highlight=False)
    line = _run_line(Runs(here))
    out_console.print(line, highlight=False, soft_wrap=True)


def _party_table(here: ServerFolder, nodes: dict[str, Node]) -> Table:
    """Makes the table of parties: which are connected, and since when.

    Args:
        here: The server's folder, with the names of the parties.
        nodes: The parties that the server knows, by name; empty if the server does not answer.
    """
    table = Table("party", "state", "since", box=None, pad_edge=False)
    for party in here.federation.present:
        node = nodes.get(party)
        state = node.status if node else "unknown"
        since = node.since if node else ""
        table.add_row(party, state, since[:19].replace("T", " "))
    for party in here.federation.left:
        table.add_row(party, "has left", "")
    return table


def _run_line(runs: Runs) -> str:
    """Describes the newest run in a line: its directory, rounds, and whether it has ended."""
    run = runs.last()
    if run is None:
        return "no run yet"
    rounds = sum(event["event"] == "round" for event in run.events()) if run.started() else 0
    result = run.result() if run.started() else None
    going = "going on" if runs.going_on else "stopped: ofcl federation start --resume"
    state = f"finished, A {percent(result.A)}" if result else going
    return f"{run.path}: {rounds} rounds, {state}"


def change(
    folder: Folder,
    set_: Annotated[
        list[str], typer.Option("--set", help="A setting as key=value: lr or q; may be repeated.")
    ],
) -> None:
    """Change the learning rate or q of the run, from its next round on, without stopping it."""
    runs = Runs(load_server(folder))
    run = runs.unfinished()
    if run is None:
        raise OfclError("no run is there whose settings could be changed; the next one: "
                        f"ofcl federation start {folder} SETTINGS.toml")  # fmt: skip
    values = dict(map(settings_files.parse_override, set_))
    Orders(run.path).add(run.settings(), values)
    when = "after the round that is going on" if runs.going_on else "when it is resumed"
    say(f"ordered: {in_words(values)}. {run.path} takes it {when}, and every party's log says so; "
        "a party whose policy refuses it says so in its log, and is missing in rounds until it is "
        "changed again")  # fmt: skip


def stop(folder: Folder) -> None:
    """Stop the run that is going on, after its state has been saved; the server stays up."""
    runs = Runs(load_server(folder))
    runs.stop()
    if runs.unfinished() is None:
        say("stopped; nobody had been asked yet, so there is nothing to go on with")
    else:
        say(f"stopped; go on with: ofcl federation start {folder} --resume")
