"""A federation in one process whose server and parties take notes for `ofcl federation watch`."""

from ofcl.experiment import Run
from ofcl.federation.party_side.party_status import PartyStatus
from ofcl.federation.server_side.noted_transport import NotedTransport
from ofcl.federation.server_side.run_status import RunStatus
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import Federation, load_server
from ofcl.federation.setup.organiser import create
from tests.support.federation import PARTIES, SMALL, InProcess, member


def made(folder):
    """A federation's folder with those of its parties."""
    create(folder, Federation("trial", PARTIES, ("127.0.0.1",), 8000))
    return load_server(folder)


def watched_members(folder, **how):
    found = {}
    for number, name in enumerate(PARTIES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        found[number] = member(folder, number, status=PartyStatus(folder / name), **how)
    return found


def watched_run(server, transport, settings=SMALL):
    """A run on a transport, and its notes."""
    path = server.folder / "runs" / "first"
    noted = RunStatus(server, path)
    stage = FederationStage(
        server.federation,
        server.folder,
        NotedTransport(transport, noted),
        introduced=noted.introduced,
    )
    said = []
    run = Run(run_settings(server.federation, settings), out=path, stage=stage,
              tell=noted.told(said.append))  # fmt: skip
    return run, noted


def finished(folder, settings=SMALL, spoil=lambda transport: None, **how):
    """A federation whose run is over; `spoil` may change the transport before."""
    server = made(folder)
    transport = InProcess(watched_members(folder, **how))
    spoil(transport)
    run, noted = watched_run(server, transport, settings)
    with noted.going_on(run.epsilon):
        for _ in run:
            pass
    return run
