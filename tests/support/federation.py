"""A federation in one process: parties, a transport between them, runs on it."""

from dataclasses import replace

from ofcl import OfclError, make_settings
from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.engines.local import LocalEngine
from ofcl.experiment import Run
from ofcl.federation.party_side.member import Member
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_policy import USUAL, Policy, load_policy
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import Federation
from ofcl.federation.transport import Delivery
from tests.support.remote import over_the_wire

SMALL = {"protocol": "sound", "method": "bi", "memory": 40, "tasks": 3, "model": "mlp",
         "hidden": 16, "burn_in": 2, "q": 3, "limit": 9, "min_clients": 3}  # fmt: skip
PARTIES = ("hospital-a", "hospital-b", "hospital-c")
FEDERATION = Federation("trial", PARTIES, ("127.0.0.1",), 8000)
WITHOUT_B = replace(FEDERATION, left=("hospital-b",))


class InProcess:
    """A transport between a server and parties in one process; parties come, go and fail."""

    def __init__(self, members):
        self.members = dict(members)
        self.processes = dict.fromkeys(self.members, 0)
        self.away = set()
        self.sent, self.lost = {}, set()
        self.count = 0

    def connected(self):
        return {k: str(self.processes[k]) for k in self.members if k not in self.away}

    def send(self, party, content):
        self.count += 1
        self.sent[str(self.count)] = party, over_the_wire(content)
        return str(self.count)

    def fetch(self, messages):
        found = {}
        for message in messages:
            party, content = self.sent.pop(message)
            try:
                found[message] = Delivery(over_the_wire(self.members[party].answer(content)))
            except OfclError:
                found[message] = Delivery(None)
        return found

    def close(self):
        self.closed = True


EXACT = Policy(update_noise=0.0)
"""The usual policy, but updates leave as they are, so that runs can be compared bit for bit."""


def member(folder, number, source=None, policy=EXACT, **how):
    folder = folder / PARTIES[number]
    folder.mkdir(parents=True, exist_ok=True)
    source = source or open_source({"dataset": "digits"}, True, lambda _: None)
    how = {"policy": policy, "tell": lambda _: None, **how}
    return Member(folder, PARTIES[number], number, source, **how)


def send_exactly(folder):
    """Lets the party of a folder send its updates as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "policy.toml"
    text = file.read_text() if file.exists() else USUAL
    line = f"update_noise = {Policy().update_noise}"
    file.write_text(text.replace(line, "update_noise = 0.0"))
    assert load_policy(folder)[0].update_noise == 0


def members(folder, **how):
    return {number: member(folder, number, **how) for number in range(3)}


def hosted(tmp_path, transport, settings=SMALL, federation=FEDERATION, aliases=None, **how):
    said = []
    made = run_settings(federation, settings)
    stage = FederationStage(federation, tmp_path, transport, aliases=aliases)
    return Run(made, stage=stage, tell=said.append, **how), said


def locally(**change):
    made = make_settings({**SMALL, "dataset": "digits", "clients": 3, **change})
    parties = dataset_participants(made, None)
    events = list(federate(LocalEngine(parties.clients), parties.server))
    return events, parties.server
