import pytest
import torch

import ofcl
from ofcl import Run, make_settings
from ofcl.compute.devices import Lanes
from ofcl.engines import local
from ofcl.events import Learned, Round, to_json
from tests.conftest import TINY


class Late(Lanes):
    """Lanes that say that work overlaps, as on a GPU: lessons are then told later."""

    def __init__(self, device, clients):
        super().__init__(device, clients)
        self.overlap = True

    def of(self, client):
        return Lanes(torch.device("cpu"), []).of(client)

    def join(self):
        pass


@pytest.mark.parametrize("stop_after", [None, 5, 17, 30])
@pytest.mark.parametrize("method", ["er", "bi"])
def test_what_is_told_later_is_the_same_and_none_is_lost(
    monkeypatch, tmp_path, blobs, method, stop_after
):
    monkeypatch.setattr(local, "stackable", lambda learner: False)
    made = make_settings({**TINY, "method": method, "checkpoint_every": 1})
    plain = list(Run(made, blobs))
    monkeypatch.setattr(local, "Lanes", Late)
    monkeypatch.setattr(local, "BATCHES_AHEAD", 2)
    run = Run(made, blobs, tmp_path / "run")
    for n, _ in enumerate(run, 1):
        if n == stop_after:
            break
    if stop_after is not None:
        ofcl.resume(tmp_path / "run", dataset=blobs)
    told = run.directory.events()

    def lessons(events):
        return [(e["client"], e["task"], e["loss"]) for e in events if e["event"] == "learned"]

    expected = lessons([to_json(event) for event in plain])
    assert sorted(lessons(told)) == sorted(expected)
    for client in range(2):  # of each client, in the order in which they came
        assert [e for e in lessons(told) if e[0] == client] == [
            e for e in expected if e[0] == client
        ]
    assert sum(e["event"] == "round" for e in told) == sum(isinstance(e, Round) for e in plain)
    assert any(isinstance(e, Learned) for e in plain)


def test_a_loss_that_is_not_finite_stops_a_run_that_tells_later(monkeypatch, blobs):
    monkeypatch.setattr(local, "Lanes", Late)
    run = Run(make_settings({**TINY, "method": "er", "optimizer": "sgd", "lr": 1e30}), blobs)
    with pytest.raises(Exception, match="is not finite"):
        for _ in run:
            pass


def test_while_nothing_comes_all_that_was_learned_is_told(monkeypatch):
    """On a GPU too: otherwise it would be neither shown nor saved."""
    monkeypatch.setattr(local, "Lanes", Late)
    samples = [(torch.randn(3), "ab"[n % 2]) for n in range(30)]
    values = {"method": "er", "memory": 12, "batch_size": 5, "q": 100, "hidden": 8}
    run = Run(make_settings({**values, "clients": 1}), streams=[samples])
    client, told, pauses = run.clients[0], [], []
    ready = client.stream.ready
    client.stream.ready = lambda: ready() and not (client.learned == 4 and len(pauses) < 3)
    run.engine._pause = lambda seconds: pauses.append(len(told))
    for event in run:
        told += [event] if isinstance(event, Learned) else []
    assert pauses == [4, 4, 4]  # all four were told before anybody waited
    assert len(told) == 6
