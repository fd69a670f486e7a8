"""Parties with streams that mask their updates: the plain global model, though one is killed."""

import torch

from ofcl.events import Learned, Round
from ofcl.federation.party_side.own_data import open_source
from tests.support.federation import InProcess, hosted, member
from tests.support.secure_federation import Phases, secure_member

SETTINGS = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 1, "q": 2, "patience": 1.0,
            "min_clients": 3}  # fmt: skip


def written(folder):
    """Writes a watched folder for each party; later files bring new labels."""
    for party, words in enumerate((("cat", "dog"), ("dog", "bird"), ("bird", "cat"))):
        (folder / str(party)).mkdir(parents=True)
        for part, word in enumerate(words):
            rows = "".join(f"{n % 7},{part * 3 + n % 3 + party},{word}\n" for n in range(20))
            (folder / str(party) / f"{part}.csv").write_text("u,v,label\n" + rows)


def source(folder, party):
    values = {"dataset": f"watch:{folder / str(party)}", "idle": 0.3, "window": 5}
    return open_source(values, False, lambda _: None)


class Streams(Phases):
    """Masked parties with streams, of which one is killed before it sends its vector."""

    def __init__(self, folder, streams):
        super().__init__(folder, self.kill_once)
        self.streams, self.killed = streams, 0
        for party in range(3):
            self.restart(party)

    def restart(self, party):
        how = {"source": source(self.streams, party)}
        self.members[party] = secure_member(self.folder, party, **how)
        self.processes[party] += 1

    def kill_once(self, transport, step, party):
        if step == "masked" and party == 1 and not self.killed:
            self.killed = 1
            self.restart(party)
        return True


def test_streams_under_masks_give_the_plain_model_though_a_party_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.data.live.watched_folder.SETTLED", 0.05)
    monkeypatch.setattr("ofcl.data.live.watched_folder.LOOK", 0.05)
    written(tmp_path / "in")
    plain_parties = {k: member(tmp_path / "p", k, source(tmp_path / "in", k)) for k in range(3)}
    plain, _ = hosted(tmp_path / "p", InProcess(plain_parties), SETTINGS)
    before = list(plain)
    transport = Streams(tmp_path, tmp_path / "in")
    masked, said = hosted(tmp_path, transport, {**SETTINGS, "secure_aggregation": True})
    after = list(masked)
    assert transport.killed
    assert not [line for line in said if "rejected" in line or "left out" in line]
    rounds = [sum(isinstance(e, Round) for e in events) for events in (before, after)]
    assert rounds[0] == rounds[1] > 1
    assert sum(e.samples for e in after if isinstance(e, Learned)) == 120  # none lost, none twice
    assert len(masked.server.model["head.bias"]) == 3  # heads have grown
    for name, tensor in plain.server.model.items():
        torch.testing.assert_close(masked.server.model[name], tensor, atol=1e-5, rtol=0)
