"""Secure sums in fewer bytes: numbers by hand, a server that lies about steps, whole runs."""

import json

import pytest
import torch

from ofcl import OfclError
from ofcl.compression.codecs import Integers
from ofcl.compression.differences import Differences, checksum
from ofcl.events import Round
from ofcl.experiment import Run
from ofcl.federation.server_side.stage import FederationStage
from ofcl.secure_sum.coding import LEAST, Coding, as_tensors, next_reach
from ofcl.secure_sum.party_sum import PartySum, SumRules
from ofcl.secure_sum.server_sum import ServerSum
from ofcl.update import Update
from tests.secure_sum.test_masked_runs import close
from tests.support.federation import FEDERATION, PARTIES, SMALL, InProcess, hosted, members
from tests.support.remote import assert_same
from tests.support.secure_federation import Phases, identity, securely

CODED = {**SMALL, "tasks": 1, "limit": 13, "secure_aggregation": True, "compress": "int8"}
BASE = {"w": torch.tensor([1.0, 1.0, 1.0]), "bn.running_var": torch.tensor([0.5])}
WEIGHTS = (1, 1, 2)


class Coder:
    """The coder of one party, whose model goes so far from the global one."""

    def __init__(self, change, statistic):
        self.differences = Differences(Integers(8), seed=0)
        self.state = {"w": BASE["w"] + torch.tensor(change),
                      "bn.running_var": torch.tensor([statistic])}  # fmt: skip

    def base(self):
        return checksum(BASE)

    def reach(self):
        return self.differences.reach({"w": self.state["w"]}, BASE)

    def code(self, outputs, steps, share, most):
        learned = {"w": self.state["w"]}
        integers = self.differences.integers(learned, BASE, steps, share, most)
        return integers, {"bn.running_var": self.state["bn.running_var"]}


CHANGES = ([0.4, 0.0, 0.1], [0.0, 0.2, 0.1], [-0.2, 0.1, 0.1])


class Sum:
    """Three parties and a server, which holds one sum after the other."""

    def __init__(self, spoil=lambda k, request: request):
        self.coders = [Coder(change, 0.25 * (k + 1)) for k, change in enumerate(CHANGES)]
        rules = SumRules(seed=0, coded=True)
        self.parties = [PartySum(k, identity(k), lambda: rules) for k in range(3)]
        self.said, self.spoil, self.release, self.requests = [], spoil, 0, []
        self.server = ServerSum("ab", BASE, PARTIES, classes=lambda: 2, seed=0,
                                checksum=checksum, tell=self.said.append)  # fmt: skip

    def hold(self, lost=()):
        self.release += 1
        self.server.begin([0, 1, 2], 0, BASE)
        while not self.server.over:
            for k, request in self.server.requests().items():
                if k in lost and request["step"] == "masked":
                    continue
                self.requests.append(request)
                update = Update(k, self.coders[k].state, WEIGHTS[k], {})
                request = self.spoil(k, request) if self.release > 1 else request
                self.server.take(k, self.parties[k].answer(
                    "ab", request, update, self.release, self.coders[k]))  # fmt: skip
            self.server.advance()
        return self.server.result()


MEAN = torch.tensor([1.0, 1.1, 1.1])  # of weights 1, 1, 2: (0.4 - 0.4) / 4, (0.2 + 0.2) / 4, 0.1


def test_the_first_sum_is_exact_and_the_second_has_eight_bits_a_number():
    sums = Sum()
    (first,) = sums.hold()
    assert torch.allclose(first.state["w"], MEAN, atol=1e-6)
    # The largest changes are 0.4, 0.2 and, twice as heavy, 0.2: 0.25 on average, and room beside.
    assert sums.server.state()["reach"] == {"w": pytest.approx(0.375)}
    (second,) = sums.hold()
    assert second.samples == 4
    step = 0.375 / 127
    # Party 0 would send 0.4 / 4, 33.9 steps, and has room for 32; party 2 sends -33.9, too.
    assert second.state["w"][0].item() == pytest.approx(1 + (32 - 34) * step, abs=1e-6)
    assert second.state["w"][1].item() == pytest.approx(1 + (17 + 17) * step, abs=1e-6)
    assert second.state["w"][2].item() == pytest.approx(1 + (8 + 8 + 17) * step, abs=1e-6)
    assert second.state["bn.running_var"].item() == pytest.approx(0.5625, abs=1e-6)  # exact
    masked = [a for a in sums.requests if a["step"] == "masked"][-1]
    assert set(masked["coding"]) == {"base", "reach", "weight", "parties"}
    assert sums.said == []


def test_what_did_not_fit_and_what_rounding_lost_comes_with_the_next_sums():
    sums, came = Sum(), torch.zeros(3)
    sums.hold()
    for _ in range(6):
        (mean,) = sums.hold()
        came += mean.state["w"] - BASE["w"]
        for coder in sums.coders:
            coder.differences.settle()  # each goes on from the global model
    wanted, step = 6 * (MEAN - 1), sums.server.state()["reach"]["w"] / 127
    # Party 0 goes farther than the others: a part of it waits. Without it, 12 steps were lost.
    assert (came - wanted).abs()[0] < 6 * step
    assert (came - wanted).abs()[1:].max() < 1.5 * step  # half a step of each party, of six sums
    kept = sum(w * c.differences.state()["lost"]["w"]
               for w, c in zip(WEIGHTS, sums.coders, strict=True)) / 4  # fmt: skip
    assert torch.allclose(came + kept, wanted, atol=1e-5)


def test_a_sum_without_a_party_that_was_lost_is_the_mean_of_the_others():
    sums = Sum()
    sums.hold()
    (mean,) = sums.hold(lost=(0,))
    assert mean.samples == 3
    expected = 1 + torch.tensor([-0.4, 0.4, 0.3]) / 3
    assert torch.allclose(mean.state["w"], expected, atol=3 * 0.375 / 127)
    assert sums.said == ["the sum of round 2 is without hospital-a"]


@pytest.mark.parametrize("lie", ["reach", "weight", "base"])
def test_a_server_that_tells_parties_different_things_learns_nothing(lie):
    """With huge steps for the others, their integers would be zero, and the sum one party's."""

    def spoil(k, request):
        if "coding" not in request or k == 2:
            return request
        coding = request["coding"]
        change = {"reach": {"w": 1e6}, "weight": 3 * 10**9, "base": 1}[lie]
        return {**request, "coding": {**coding, lie: change}}

    sums = Sum(spoil)
    sums.hold()
    if lie == "base":
        with pytest.raises(OfclError, match="another model"):
            sums.hold()
        return
    found = sums.hold()
    assert found == []  # the masks are still in the sum, and so is its weight
    assert sums.said == ["the sum of round 2 is left out: its weight cannot be"]


@pytest.mark.parametrize(("change", "words"), [
    ({"reach": {"w": 0.0}}, "too small"),
    ({"reach": {"w": float("nan")}}, "not finite"),
    ({"reach": {"v": 1.0}}, "another model"),
    ({"weight": 0}, "another weight"),
    ({"weight": 1}, "too small a weight"),
    ({"parties": 2}, "other parties"),
    ({"reach": None}, "cannot be read"),
])  # fmt: skip
def test_a_party_refuses_steps_that_cannot_be(change, words):
    def spoil(k, request):
        known = "coding" in request
        return {**request, "coding": {**request["coding"], **change}} if known else request

    sums = Sum(lambda k, request: spoil(k, request) if k == 2 else request)
    if change == {"reach": {"v": 1.0}}:
        sums.coders[2].code = lambda *given: (_ for _ in ()).throw(OfclError("another model"))
    sums.hold()
    with pytest.raises(OfclError, match=words):
        sums.hold()


def test_another_model_at_one_party_makes_the_sum_exact():
    sums = Sum()
    sums.hold()
    sums.coders[1].base = lambda: 7
    (mean,) = sums.hold()
    assert torch.allclose(mean.state["w"], MEAN, atol=1e-6)
    assert not [request for request in sums.requests if "coding" in request]


@pytest.mark.parametrize("parties", [3, 16, 17, 200])
def test_no_sum_wraps_around_however_the_weights_are(parties):
    for first in (1, 10, 10**6):
        weights = [first, *[3] * (parties - 1)]
        coding = Coding(0, {}, sum(weights), parties)
        assert sum(map(coding.most, weights)) <= coding.most_of_all
        assert min(map(coding.most, weights)) >= 1
    assert coding.dtype == (torch.int8 if parties <= 16 else torch.int16)
    if parties <= 16:  # alike, each has as much room as int4 has
        assert Coding(0, {}, 5 * parties, parties).most(5) >= 7


def test_the_reach_follows_what_changes_do():
    assert next_reach(as_tensors({"w": 0.3}), {}) == {"w": pytest.approx(0.45)}
    assert next_reach(as_tensors({"w": 0.01}), {"w": 0.6}) == {"w": pytest.approx(0.3)}
    assert next_reach(as_tensors({"w": 0.0}), {"w": LEAST}) == {"w": LEAST}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A coded run that nobody disturbs: its model, rounds and lines."""
    run, said, transport = securely(tmp_path_factory.mktemp("whole"), settings=CODED)
    rounds = [event for event in run if isinstance(event, Round)]
    return run, rounds, said, transport


def test_a_run_learns_as_without_masks_and_sends_a_sixth_of_the_bytes(tmp_path, whole):
    run, rounds, said, transport = whole
    exact, _, _ = securely(tmp_path / "e", settings={**CODED, "compress": "none"})
    as_it_is = [event for event in exact if isinstance(event, Round)]
    plain, _ = hosted(tmp_path / "p", InProcess(members(tmp_path / "p")),
                      {**CODED, "secure_aggregation": False})  # fmt: skip
    list(plain)
    assert len(rounds) == len(as_it_is) > 3
    assert not [line for line in said if "rejected" in line or "left out" in line]
    # Keys, letters and shares are as large as before; the masked numbers have an eighth.
    small = [
        answer["sum"]
        for _, _, answer in transport.answers
        if answer.get("sum", {}).get("small") is not None
    ]
    numbers = sum(value.numel() for value in run.server.model.values())
    assert {(len(one["small"]), one["small"].dtype) for one in small} == {(numbers, torch.int8)}
    assert {len(one["masked"]) for one in small} == {len(run.server.model) + 1}
    assert len(small) == 3 * (len(rounds) - 1)  # of the first, nobody knew how far changes go
    assert rounds[-1].bytes_sent < as_it_is[-1].bytes_sent / 2
    assert rounds[-1].bytes_received < as_it_is[-1].bytes_received / 3
    scale = max(float((value - exact.server.model[n]).abs().max())
                for n, value in plain.server.model.items())  # fmt: skip
    assert close(run.server.model, exact.server.model, max(3 * scale, 0.02))


@pytest.mark.parametrize(("step", "who"), [
    ("keys", "party"), ("shares", "server"), ("masked", "party"), ("masked", "server"),
    ("reveal", "party"),
])  # fmt: skip
def test_coded_runs_are_resumed_bit_for_bit_after_kills_at_every_step(tmp_path, step, who, whole):
    asked = []

    class Killed(Exception):
        pass

    def before(transport, now, party):
        if now == step and party == 1:
            asked.append(1)
            if len(asked) == 3:  # not in the first sum, which is exact
                if who == "server":
                    raise Killed
                transport.restart(1)
        return True

    run, _, transport = securely(tmp_path, before, CODED, out=tmp_path / "run")
    try:
        list(run)
    except Killed:
        stage = FederationStage(FEDERATION, tmp_path, transport)
        run = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
        list(run)
    assert len(asked) > 3
    assert_same(run.server.model, whole[0].server.model)


def test_the_server_holds_no_change_of_one_party(tmp_path):
    """What arrives is masked: alike for two numbers as seldom as chance would have it."""
    transport = Phases(tmp_path)
    run, _ = hosted(tmp_path, transport, CODED)
    list(run)
    small = [answer["sum"]["small"] for _, _, answer in transport.answers
             if answer.get("sum", {}).get("small") is not None]  # fmt: skip
    for vector in small:
        counts = torch.bincount(vector.long() + 128, minlength=256).double()
        expected = len(vector) / 256
        chi = float(((counts - expected) ** 2 / expected).sum())
        assert chi < 400  # 255 degrees of freedom: mean 255, deviation 23


@pytest.mark.parametrize(("change", "reason"), [
    ({"compress": "topk:0.1"}, "use compress = 'int8'"),
    ({"compress": "fp16"}, "use compress = 'int8'"),
    ({"dp_clip": 1.0, "dp_noise": 1.0}, "needs exact sums"),
])  # fmt: skip
def test_what_cannot_be_added_up_is_refused(tmp_path, change, reason):
    with pytest.raises(OfclError, match=reason):
        hosted(tmp_path, Phases(tmp_path), {**CODED, **change})


def test_the_audit_file_names_what_a_coded_sum_tells(tmp_path):
    run, _, _ = securely(tmp_path, settings={**CODED, "limit": 7})
    list(run)
    lines = (tmp_path / "hospital-b" / "audit.jsonl").read_text().splitlines()
    sums = [{f["field"]: f["bytes"] for f in json.loads(line)["fields"]
             if f["field"].startswith("sum.")} for line in lines]  # fmt: skip
    keys, masked = ([s for s in sums if name in s] for name in ("sum.letters", "sum.masked"))
    assert any({"sum.weight", "sum.base", "sum.outputs"} <= set(s) for s in keys)
    assert [set(s) for s in masked] == [{"sum.masked"}, {"sum.masked", "sum.small"}]
    numbers = sum(value.numel() for value in run.server.model.values())
    assert masked[1]["sum.small"] == numbers
