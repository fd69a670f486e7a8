"""Rounds in which nobody waits: weights by hand, the order of arrivals, resuming, replaying."""

import pytest
import torch

from ofcl import OfclError, Run, make_settings
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.buffered import arrivals_of, federate_buffered, loop_of
from ofcl.engines.local import LocalEngine
from ofcl.events import Arrived, Round
from ofcl.safeguards.late_updates import LateUpdates
from ofcl.server import Server
from ofcl.storage.run_directory import RunDirectory
from ofcl.update import Update
from tests.conftest import TINY
from tests.support.commands import Command, in_one_process
from tests.support.remote import assert_same

BUFFERED = {**TINY, "method": "er", "clients": 3, "rounds": "buffered", "buffer": 2}


def model(value, head=0.0):
    return {"w": torch.tensor([value]), "bn.running_var": torch.tensor([value]),
            "head.weight": torch.full((1, 1), head), "head.bias": torch.tensor([head])}  # fmt: skip


def update(client, value):
    return Update(client, model(value), 10, {})


def test_an_old_update_is_moved_to_the_newest_model_and_counts_less():
    late = LateUpdates(enough=2, power=0.5, seed=0)
    late.begin(model(0.0))
    late.add(update(0, 1.0))
    late.hand(model(4.0), 3)  # client 0 goes on from the third round's model
    late.add(update(0, 6.0))
    assert late.full
    moved, ages = late.take(model(10.0), 3)
    assert ages == [3, 0]
    assert [u.state["w"].item() for u in moved] == [10 + (1 - 0) / 2, 10 + (6 - 4)]  # 4 ** -½
    # Statistics are means: half of the way to 1, the whole way to 6.
    assert [u.state["bn.running_var"].item() for u in moved] == [5.5, 6.0]
    assert late.empty


def test_power_zero_ignores_age():
    late = LateUpdates(enough=1, power=0.0, seed=0)
    late.begin(model(0.0))
    late.add(update(1, 1.0))
    (moved,), _ = late.take(model(10.0), 7)
    assert moved.state["w"].item() == 11.0


def test_a_buffer_is_put_back_as_it_was():
    late = LateUpdates(enough=3, power=0.5, seed=0)
    late.begin(model(0.0))
    for client in (1, 0):
        late.add(update(client, 1.0))
        late.hand(model(2.0), 1)
    late.add(update(1, 3.0))
    other = LateUpdates(enough=3, power=0.5, seed=0)
    other.load_state(late.state(), torch.device("cpu"))
    assert other.unanswered == late.unanswered == 1
    assert len(late.state()["models"]) <= 3
    one, other = late.take(model(5.0), 2), other.take(model(5.0), 2)
    assert one[1] == other[1] == [2, 2, 1]
    for a, b in zip(one[0], other[0], strict=True):
        assert_same(a.state, b.state)


def buffered(settings, data, **how):
    parties = dataset_participants(settings, data)
    engine = LocalEngine(parties.clients, **how)
    return list(federate_buffered(engine, parties.server, parties.server.late)), parties.server


def test_fast_clients_arrive_more_often_and_nobody_waits(blobs):
    settings = make_settings({**BUFFERED, "speeds": [1.0, 1.0, 5.0]})
    events, server = buffered(settings, blobs, speeds=settings.speeds)
    order = arrivals_of(events)
    first = order.index(2)  # the slow one, after five times the others' time
    assert first >= 6
    assert order.count(0) == order.count(1) == order.count(2)  # all learn their whole streams
    rounds = [event for event in events if isinstance(event, Round)]
    with_slow = [age for e in rounds for k, age in zip(e.clients, e.ages, strict=False) if k == 2]
    assert max(with_slow) >= 3
    assert all(len(event.clients) == 2 for event in rounds[:-1])
    assert server.round == len(rounds)


def test_a_recorded_order_gives_the_same_run(blobs):
    settings = make_settings({**BUFFERED, "speeds": [1.0, 3.0, 10.0]})
    events, server = buffered(settings, blobs, speeds=settings.speeds)
    again, replayed = buffered(settings, blobs, arrivals=arrivals_of(events))
    assert_same(server.model, replayed.model)
    assert [e for e in again if isinstance(e, Round | Arrived)] == [
        e for e in events if isinstance(e, Round | Arrived)
    ]


@pytest.mark.parametrize("stop", [3, 7, 20, 33])
def test_a_run_that_is_stopped_after_any_event_ends_as_if_it_had_not_been(tmp_path, blobs, stop):
    settings = make_settings({**BUFFERED, "speeds": [1.0, 2.0, 7.0], "compress": "int8"})
    whole = Run(settings, blobs)
    list(whole)
    run = Run(settings, blobs, out=tmp_path / "run")
    for number, _ in enumerate(run):
        if number == stop:
            run.save()
            break
    run.close()
    resumed = Run.resume(tmp_path / "run", dataset=blobs)
    list(resumed)
    assert_same(resumed.server.model, whole.server.model)
    assert resumed.result().A == whole.result().A


@pytest.mark.parametrize(("change", "reason"), [
    ({"buffer": 4}, "lower buffer"),
    ({"speeds": [1.0, 2.0]}, "expected 3"),
    ({"speeds": [1.0, 2.0, 0.0]}, "above 0"),
    ({"speeds": [1.0, 2.0, 3.0], "engine": "flower-sim"}, "have their own speeds"),
    ({"round_timeout": 5.0}, "nobody is waited for"),
    ({"dropout": 0.5}, "speeds makes some of them slow"),
    ({"rounds": "waiting", "speeds": [1.0, 2.0, 3.0], "buffer": 2}, "would do nothing"),
])  # fmt: skip
def test_what_excludes_buffered_rounds_is_refused(change, reason, blobs):
    with pytest.raises(OfclError, match=reason):
        Run(make_settings({**BUFFERED, **change}), blobs)


def test_an_engine_that_cannot_answer_one_by_one_is_refused():
    server = Server(model(0.0), late=LateUpdates(2, 0.5, 0))
    with pytest.raises(OfclError, match="one by one"):
        loop_of(object(), server)


@in_one_process
def test_a_recorded_run_is_computed_again_by_a_command(tmp_path):
    changes = {**BUFFERED, "dataset": "digits", "model": "mlp", "limit": 4}
    first = Run(make_settings({**changes, "speeds": [1.0, 3.0, 10.0]}), out=tmp_path / "first")
    list(first)
    replay = ("run", "--replay", tmp_path / "first", "--out", tmp_path / "again", "-q")
    code, _, err = Command(*replay).wait()
    assert code == 0, err
    again = RunDirectory(tmp_path / "again")
    assert [e["client"] for e in again.events() if e["event"] == "arrived"] == arrivals_of(
        first.events
    )
    assert again.result().A == first.result().A
    code, _, err = Command(*replay, "--seeds", "0,1").wait()
    assert code != 0
    assert "leave --seeds out" in err
