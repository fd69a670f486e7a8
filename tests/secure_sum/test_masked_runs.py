"""Runs whose server sees sums alone: the plain global model, whoever is killed."""

import pytest
import torch

from ofcl import OfclError
from ofcl.events import Round
from ofcl.experiment import Run
from ofcl.federation.server_side.stage import FederationStage
from ofcl.secure_sum.fixed_point import STEPS
from ofcl.storage.checkpoint import load_checkpoint
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, members
from tests.support.remote import assert_same
from tests.support.secure_federation import SECURE, Phases, secure_member, securely

SHORT = {**SECURE, "tasks": 1, "limit": 5}
STEPS_OF_SUM = ("keys", "shares", "masked", "reveal")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The global model of a short run that nobody disturbs."""
    run, _, _ = securely(tmp_path_factory.mktemp("whole"), settings=SHORT)
    list(run)
    return run.server.model


def close(one, other, tolerance=1e-5):
    assert one.keys() == other.keys()
    return all(torch.allclose(one[n], other[n], atol=tolerance, rtol=0) for n in one)


def test_the_masked_model_is_the_plain_one_to_fixed_point_precision(tmp_path):
    values = {**SMALL, "tasks": 2, "limit": 6}
    plain, _ = hosted(tmp_path / "plain", InProcess(members(tmp_path / "plain")), values)
    rounds = [event for event in plain if isinstance(event, Round)]
    run, said, _ = securely(tmp_path, settings={**values, "secure_aggregation": True})
    masked = [event for event in run if isinstance(event, Round)]
    assert close(run.server.model, plain.server.model)
    assert [event.clients for event in masked] == [event.clients for event in rounds]
    assert [event.samples for event in masked] == [[sum(e.samples)] for e in rounds]
    assert masked[0].bytes_sent > 2 * rounds[0].bytes_sent  # eight bytes a number, and shares
    assert not [line for line in said if "rejected" in line or "left out" in line]


@pytest.mark.parametrize("method", ["ewc", "glfc"])  # a companion of the model; a memory
def test_methods_of_the_field_are_summed_as_they_are_averaged(tmp_path, method):
    values = {**SMALL, "tasks": 2, "limit": 4, "method": method}
    plain, _ = hosted(tmp_path / "plain", InProcess(members(tmp_path / "plain")), values)
    rounds = sum(isinstance(event, Round) for event in plain)
    run, said, _ = securely(tmp_path, settings={**values, "secure_aggregation": True})
    assert sum(isinstance(event, Round) for event in run) == rounds > 1
    assert close(run.server.model, plain.server.model, 1e-4)
    importance = [v for name, v in run.server.model.items() if name.startswith("companion.")]
    assert bool(importance) == (method == "ewc")
    assert all(v.abs().sum() > 0 for v in importance)
    assert not [line for line in said if "rejected" in line or "left out" in line]


def test_one_sum_by_itself_is_exact(tmp_path):
    """Of one round, the error is that of fixed point and of float32 alone."""
    values = {**SHORT, "previous": 0.0}
    plain, _ = hosted(tmp_path / "p", InProcess(members(tmp_path / "p")),
                      {**values, "secure_aggregation": False})  # fmt: skip
    run, _, _ = securely(tmp_path, settings=values)
    assert sum(isinstance(e, Round) for e in plain) == sum(isinstance(e, Round) for e in run) == 1
    assert close(run.server.model, plain.server.model, 3 / STEPS + 1e-7)


def test_statistics_of_batchnorm_are_summed_too(tmp_path):
    values = {"protocol": "sound", "method": "er", "memory": 20, "tasks": 1, "width": 2,
              "model": "slim-resnet18", "burn_in": 1, "q": 2, "limit": 2, "steps": 1,
              "min_clients": 3}  # fmt: skip
    plain, _ = hosted(tmp_path / "p", InProcess(members(tmp_path / "p")), values)
    list(plain)
    run, _, _ = securely(tmp_path, settings={**values, "secure_aggregation": True})
    list(run)
    assert any("running_var" in name for name in run.server.model)
    assert close(run.server.model, plain.server.model)


@pytest.mark.parametrize("step", STEPS_OF_SUM[1:])
def test_a_sum_goes_on_without_a_party_that_is_killed(tmp_path, step):
    """After its keys, after its shares, or after its vector: the others' sum is the plain one."""

    def before(transport, asked, party):
        if asked == step and party == 1:
            transport.away = {1}
        return party not in transport.away

    run, said, transport = securely(tmp_path, before, {**SHORT, "round_timeout": 0.3})
    updates = {}
    for event in run:
        if isinstance(event, Round):
            updates = {k: held_update(tmp_path, k) for k in range(3)}
            transport.away, transport.before = set(), lambda *_: True
    # A vector that has arrived counts, though its party is killed before the last step.
    counted = (0, 1, 2) if step == "reveal" else (0, 2)
    # One round, and no previous model: the global model is the average.
    assert close(run.server.model, weighted(updates, counted), 1e-6)
    assert not [line for line in said if "left out" in line]


def held_update(folder, party):
    (run,) = (folder / f"hospital-{'abc'[party]}" / "runs").iterdir()
    return load_checkpoint(run, pytest.fail).state["held"]


def weighted(updates, counted):
    total = sum(updates[k]["samples"] for k in counted)
    return {name: sum(updates[k]["state"][name] * updates[k]["samples"] for k in counted) / total
            for name in updates[0]["state"]}  # fmt: skip


@pytest.mark.parametrize("step", STEPS_OF_SUM)
@pytest.mark.parametrize("who", ["party", "server"])
def test_runs_are_resumed_bit_for_bit_after_kills_at_every_step(tmp_path, step, who, whole):
    killed = []

    class Killed(Exception):
        pass

    def before(transport, asked, party):
        if asked == step and party == 1 and not killed:
            killed.append(1)
            if who == "server":
                raise Killed
            transport.restart(1)
        return True

    run, _, transport = securely(tmp_path, before, SHORT, out=tmp_path / "run")
    try:
        list(run)
    except Killed:
        stage = FederationStage(FEDERATION, tmp_path, transport)
        run = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
        list(run)
    assert killed
    assert_same(run.server.model, whole)


def test_an_answer_that_is_lost_is_asked_for_again_and_is_the_same(tmp_path, whole):
    lost = set()

    class Losing(Phases):
        def fetch(self, messages):
            found = dict(super().fetch(messages))
            for message, (party, content, _) in zip(list(found), self.answers[-len(found):],
                                                    strict=False):  # fmt: skip
                step = content.get("request", {}).get("sum", {}).get("step")
                if step and (step, party) not in lost and party > 0:
                    lost.add((step, party))
                    self.processes[party] += 1  # so that it is asked again
                    found.pop(message)
                    self.sent[message] = (party, content)
            return found

    run, _ = hosted(tmp_path, Losing(tmp_path), SHORT)
    list(run)
    assert len(lost) == 8
    assert_same(run.server.model, whole)


def numbers_of(state):
    """All tensors of a message or a checkpoint, as one row each."""
    if isinstance(state, torch.Tensor):
        return [state.flatten()]
    if isinstance(state, dict):
        return [t for value in state.values() for t in numbers_of(value)]
    if isinstance(state, list | tuple):
        return [t for value in state for t in numbers_of(value)]
    return []


def test_the_server_never_holds_one_partys_update(tmp_path):
    """Neither in what arrives, nor in its memory, nor on its disk."""
    watched, held = [], []

    def before(transport, step, party):
        if step == "reveal" and party == 0:
            held.append({k: held_update(tmp_path, k) for k in range(3)})
            watched.extend(numbers_of(run.engine.state()))
        return True

    run, _, transport = securely(tmp_path, before, SHORT, out=tmp_path / "run")
    list(run)
    for updates in held:
        for number in range(3):
            state, weight = updates[number]["state"], updates[number]["samples"]
            flat = torch.cat([state[n].flatten() for n in sorted(state)]).double()
            assert len(flat) > 500
            arrived = [t for _, _, answer in transport.answers for t in numbers_of(answer)]
            saved = load_checkpoint(tmp_path / "run" / "checkpoint", pytest.fail).state
            seen = [*arrived, *watched, *numbers_of(saved["engine"])]
            assert any(len(t) == len(flat) + 1 for t in seen)  # the masked vectors
            for tensor in seen:
                for piece in (flat, flat * weight * STEPS):
                    assert not resembles(tensor.double(), piece)


def resembles(tensor, piece):
    """Whether a tensor is, or follows, an update: masks leave no trace of it."""
    if len(tensor) < len(piece):
        return False
    both = torch.stack([tensor[: len(piece)], piece])
    return bool(torch.corrcoef(both)[0, 1].abs() > 0.2)


def test_the_check_for_single_updates_would_see_plain_ones(tmp_path):
    """The same look at what arrives, in a run without masks, finds the parties' models."""
    transport = Phases(tmp_path)
    run, _ = hosted(tmp_path, transport, {**SHORT, "secure_aggregation": False})
    list(run)
    updates = [answer["update"]["state"] for _, _, answer in transport.answers
               if answer.get("update")]  # fmt: skip
    first, last = (torch.cat([u[n].flatten() for n in sorted(u)]).double()
                   for u in (updates[0], updates[-1]))  # fmt: skip
    assert resembles(first, last)  # two models that learned from the same start
    noise = torch.randn(len(first), generator=torch.Generator().manual_seed(0)).double()
    assert not resembles(noise, first)


def test_a_masked_run_with_noise_tells_the_epsilon_of_the_sum(tmp_path):
    values = {**SHORT, "dp_clip": 1.0, "dp_noise": 4.0}
    run, _, transport = securely(tmp_path, settings=values)
    list(run)
    plain = {**values, "secure_aggregation": False}
    alone, _ = hosted(tmp_path / "p", Phases(tmp_path / "p"), plain)
    list(alone)
    assert run.epsilon() == alone.epsilon() > 0
    members = transport.members.values()
    shares = [m._responder._client._sharing.privacy.noise for m in members]
    assert shares == [pytest.approx(4.0 / 2**0.5)] * 3  # two of three carry it all
    (event,) = [e for e in run.events if isinstance(e, Round)]
    assert event.samples == [3]  # all weigh the same


@pytest.mark.parametrize(("change", "reason"), [
    ({"aggregation": "median"}, "needs the single updates"),
    ({"aggregation": "krum"}, "needs the single updates"),
    ({"aggregation": "weighted"}, "needs the single updates"),
    ({"clip_norm": 1.0}, "dp_clip clips at the parties"),
    ({"classifier": "nearest-mean", "closing_round": "task"}, "classifier = 'head'"),
    ({"method": "mfcl"}, "sends more than these"),
])  # fmt: skip
def test_what_needs_single_updates_is_refused(tmp_path, change, reason):
    with pytest.raises(OfclError, match=reason):
        hosted(tmp_path, Phases(tmp_path), {**SECURE, **change})


def test_a_party_may_refuse_plain_runs_and_a_change_of_terms(tmp_path):
    one = secure_member(tmp_path, 0, secure_only=True)
    asked = []

    class Turning(Phases):
        def send(self, party, content):
            request = content.get("request", {})
            if request.get("sum", {}).get("step") == "keys" and party == 0:
                came = content["terms"].tree
                terms = {**came["settings"], "secure_aggregation": False}
                spoilt = {"request": {**request, "steps": [], "sum": {}, "exchange": 99},
                          "terms": {**came, "settings": terms}}  # fmt: skip
                with pytest.raises(OfclError, match="changed secure_aggregation"):
                    self.members[0].answer(spoilt)
                self.restart(0)
                with pytest.raises(OfclError, match="changed secure_aggregation"):
                    self.members[0].answer(spoilt)
                self.restart(0)
                asked.append(party)
            return super().send(party, content)

    run, _ = hosted(tmp_path / "t", Turning(tmp_path / "t"), SHORT)
    list(run)
    assert asked
    with pytest.raises(OfclError, match="--secure-only"):
        terms = {"settings": {**run.settings.model_dump(mode="json"), "secure_aggregation": False},
                 "clients": 3, "labels": ["0"], "base": 1,
                 "samples": {"way": "dataset", "kind": "image", "shape": [1, 8, 8],
                             "mean": [0.0], "std": [1.0], "embedder": None}}  # fmt: skip
        request = {"run": "ab", "exchange": 1, "steps": [], "model": {}, "handed": {}, "task": 0,
                   "seen": 0}  # fmt: skip
        one.answer({"request": request, "terms": terms})
