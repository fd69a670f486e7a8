"""Parties of a federation in one process that mask their updates."""

from ofcl.federation.setup.keys import make_party_key
from ofcl.secure_sum.identity import Identity
from tests.support.federation import PARTIES, SMALL, InProcess, hosted, member

SECURE = {**SMALL, "secure_aggregation": True}
KEYS = {name: make_party_key() for name in PARTIES}
PEERS = {name: key.public for name, key in KEYS.items()}


def identity(number, peers=PEERS):
    return Identity(PARTIES[number], KEYS[PARTIES[number]].private, peers)


def secure_member(folder, number, **how):
    return member(folder, number, identity=identity(number), **how)


class Phases(InProcess):
    """A transport that notes what passes, and calls a function before each step of a sum."""

    def __init__(self, folder, before=lambda transport, step, party: True, **how):
        super().__init__({k: secure_member(folder, k, **how) for k in range(3)})
        self.folder, self.before, self.answers = folder, before, []

    def restart(self, party):
        """The party's process is killed, and started again: only its files are left."""
        self.members[party] = secure_member(self.folder, party)
        self.processes[party] += 1

    def send(self, party, content):
        step = content.get("request", {}).get("sum", {}).get("step")
        if step is not None and not self.before(self, step, party):
            return ""
        return super().send(party, content)

    def fetch(self, messages):
        asked = {message: self.sent[message] for message in messages}
        found = super().fetch(messages)
        self.answers += [(*asked[m], delivery.content) for m, delivery in found.items()]
        return found


def securely(folder, before=lambda transport, step, party: True, settings=SECURE, **how):
    transport = Phases(folder, before)
    run, said = hosted(folder, transport, settings, **how)
    return run, said, transport
