"""A party against a server that asks for more than a sum."""

import itertools

import pytest
import torch

from ofcl import OfclError
from ofcl.models.head import grown
from ofcl.secure_sum.fixed_point import decoded
from ofcl.secure_sum.identity import Identity
from ofcl.secure_sum.party_sum import PartySum, SumRules
from ofcl.secure_sum.server_sum import ServerSum
from ofcl.update import Update
from tests.support.federation import PARTIES
from tests.support.secure_federation import PEERS, identity

LIKE = {"w": torch.zeros(4)}
VALUES = {0: (1.0, 1), 1: (2.0, 1), 2: (5.0, 2)}


def update(k):
    value, weight = VALUES[k]
    return Update(k, {"w": torch.full((4,), value)}, weight, {})


def party(k, **change):
    return PartySum(k, change.get("identity", identity(k)), lambda: SumRules(seed=0))


def server(said=None):
    tell = (said if said is not None else []).append
    summing = ServerSum("ab", LIKE, PARTIES, classes=lambda: 2, seed=0, tell=tell)
    summing.begin([0, 1, 2], 0, {})
    return summing


def asked(summing, parties, without=(), spoil=lambda step, k, answer: answer):
    """Carries out one step; gives the requests."""
    requests = summing.requests()
    for k, request in requests.items():
        if k not in without:
            answer = parties[k].answer("ab", request, update(k), 1)
            summing.take(k, spoil(request["step"], k, answer))
    summing.advance()
    return requests


def test_a_sum_by_hand():
    said = []
    summing, parties = server(said), {k: party(k) for k in range(3)}
    for _ in range(4):
        asked(summing, parties)
    (mean,) = summing.result()
    assert mean.samples == 4
    assert mean.state["w"].tolist() == [3.25] * 4  # (1 + 2 + 2 · 5) / 4
    assert said == []


def test_without_the_one_that_is_lost_who_is_named():
    said = []
    summing, parties = server(said), {k: party(k) for k in range(3)}
    for step in range(4):
        asked(summing, parties, without=(1,) if step >= 2 else ())
    (mean,) = summing.result()
    assert mean.state["w"].tolist() == pytest.approx([11 / 3] * 4)
    assert said == ["the sum of round 1 is without hospital-b"]


def test_a_party_reveals_one_kind_of_share_and_never_the_other_killed_or_not():
    summing, parties = server(), {k: party(k) for k in range(3)}
    for _ in range(3):
        asked(summing, parties)
    (request, *_) = summing.requests().values()
    first = parties[0].answer("ab", request, update(0), 1)
    assert first["self_masks"].keys() == {"0", "1", "2"}
    assert first["mask_keys"] == {}
    assert parties[0].answer("ab", request, update(0), 1) == first
    saved, again = parties[0].state(), party(0)
    again.load_state(saved)
    for one in (parties[0], again):
        with pytest.raises(OfclError, match="twice, and differently"):
            one.answer("ab", {**request, "arrived": [0, 2]}, update(0), 1)
    with pytest.raises(OfclError, match="it is 1 here"):
        again.answer("ab", {**request, "sum": 2}, update(0), 1)


def test_an_update_is_part_of_one_sum_alone():
    """The difference of a sum with a party and one without would be its update."""
    summing, parties = server(), {k: party(k) for k in range(3)}
    for _ in range(4):
        asked(summing, parties)
    summing.result()
    summing.begin([0, 1, 2], 0, {})
    asked(summing, parties)
    asked(summing, parties)
    with pytest.raises(OfclError, match="part of a sum already"):
        parties[0].answer("ab", summing.requests()[0], update(0), 1)
    assert parties[0].answer("ab", summing.requests()[0], update(0), 2)["masked"].shape == (5,)


def test_sums_of_too_few_and_keys_that_nobody_signed_are_refused():
    summing, parties = server(), {k: party(k) for k in range(3)}
    asked(summing, parties)
    request = summing.requests()[0]
    two = {k: request["keys"][k] for k in ("0", "1")}
    with pytest.raises(OfclError, match="a secure sum of 2 parties is refused; 3 needed"):
        parties[0].answer("ab", {**request, "keys": two}, update(0), 1)
    swapped = {**request["keys"], "2": {**request["keys"]["2"], "masks": "11" * 32}}
    with pytest.raises(OfclError, match="hospital-c has not signed"):
        parties[0].answer("ab", {**request, "keys": swapped}, update(0), 1)
    stranger = Identity(PARTIES[0], identity(0).private, {PARTIES[0]: PEERS[PARTIES[0]]})
    lonely = party(0, identity=stranger)
    lonely.load_state(parties[0].state())
    with pytest.raises(OfclError, match=r"peers/hospital-b\.pub"):
        lonely.answer("ab", request, update(0), 1)
    with pytest.raises(OfclError, match="out of order"):
        parties[1].answer("ab", {"sum": 1, "step": "reveal", "arrived": [0, 1]}, update(1), 1)
    old = parties[0].answer("ab", {"sum": 1, "step": "keys"}, update(0), 1)
    assert old["masks"] == request["keys"]["0"]["masks"]
    other = party(1)
    other.answer("ab", {"sum": 2, "step": "keys"}, update(1), 1)
    replayed = {**request, "sum": 2}
    with pytest.raises(OfclError, match="not among those"):
        other.answer("ab", replayed, update(1), 1)


def test_too_small_a_rest_is_refused_at_the_end():
    summing, parties = server(), {k: party(k) for k in range(3)}
    for _ in range(3):
        asked(summing, parties)
    request = {"sum": 1, "step": "reveal", "arrived": [0]}
    with pytest.raises(OfclError, match="a sum of 1 of 3 parties is refused"):
        parties[0].answer("ab", request, update(0), 1)


def test_what_the_server_adds_up_is_masked():
    summing, parties = server(), {k: party(k) for k in range(3)}
    for _ in range(3):
        asked(summing, parties)
    for k in range(3):
        vector = summing.state()["open"]["answers"]["masked"][str(k)]["masked"]
        mean, _ = decoded(torch.cat([vector[:-1], torch.ones(1, dtype=torch.int64)]), LIKE)
        assert (mean["w"] - VALUES[k][0] * VALUES[k][1]).abs().min() > 1


def test_a_wrong_share_is_passed_over_where_there_are_more_than_needed():
    def spoil(step, k, answer):
        if step == "reveal" and k == 0:
            return {**answer, "self_masks": dict.fromkeys(answer["self_masks"], "00" * 66)}
        return answer

    said = []
    summing, parties = server(said), {k: party(k) for k in range(3)}
    for _ in range(4):
        asked(summing, parties, spoil=spoil)
    (mean,) = summing.result()
    assert mean.state["w"].tolist() == [3.25] * 4


@pytest.mark.parametrize(("step", "answer", "reason"), [
    (0, {}, "cannot be read"),
    (0, {"letters": "zz", "masks": "00", "signature": "00", "outputs": 0}, "cannot be read"),
    (0, {"letters": "00" * 99, "masks": "00", "signature": "00", "outputs": 0}, "cannot be"),
    (0, {"letters": "00", "masks": "00", "signature": "00", "outputs": 10**9}, "outputs"),
    (1, {"letters": {}, "commitment": "00" * 32}, "one for every other party"),
    (2, {"masked": torch.zeros(5)}, "another type"),
    (2, {"masked": torch.zeros(9, dtype=torch.int64)}, "the shape"),
    (3, {"self_masks": {}, "mask_keys": {}}, "not those that were asked for"),
])  # fmt: skip
def test_the_server_refuses_spoilt_answers(step, answer, reason):
    summing, parties = server(), {k: party(k) for k in range(3)}
    for _ in range(step):
        asked(summing, parties)
    with pytest.raises(OfclError, match=reason):
        summing.take(1, answer)


def test_old_keys_of_others_are_refused():
    """A server that has found out the keys of an earlier sum puts them into the next one."""
    summing, parties = server(), {k: party(k) for k in range(3)}
    asked(summing, parties)
    old = summing.requests()[0]["keys"]["2"]
    for _ in range(3):
        asked(summing, parties)
    summing.result()
    summing.begin([0, 1, 2], 0, {})
    asked(summing, parties)
    request = summing.requests()[0]
    with pytest.raises(OfclError, match="hospital-c has not signed"):
        parties[0].answer("ab", {**request, "keys": {**request["keys"], "2": old}}, update(0), 2)
    parties[0].answer("ab", request, update(0), 2)


@pytest.mark.parametrize("told", itertools.product([False, True], repeat=3), ids=str)
def test_a_server_that_tells_groups_different_things_gets_one_kind_of_share_alone(told):
    """To some it says that the vector of party 2 has arrived, to the others that it has not."""
    summing, parties = server(), {k: party(k) for k in range(3)}
    for _ in range(3):
        asked(summing, parties)
    request = summing.requests()[0]
    shares = {"self_masks": 0, "mask_keys": 0}
    for k, arrived in enumerate(told):
        lie = {**request, "arrived": [0, 1, 2] if arrived else [0, 1]}
        try:
            answer = parties[k].answer("ab", lie, update(k), 1)
        except OfclError:
            continue
        for kind in shares:
            shares[kind] += "2" in answer[kind]
    assert min(shares.values()) < 2  # two thirds of three open a secret
    assert sum(shares.values()) <= 3


def test_heads_of_different_width_are_summed_at_the_width_of_the_run():
    like = {"head.weight": torch.zeros(2, 3), "head.bias": torch.zeros(2)}
    summing = ServerSum("ab", like, PARTIES, classes=lambda: 4, seed=0, tell=print)
    summing.begin([0, 1, 2], 4, {})
    parties = {k: party(k) for k in range(3)}
    sent = {}
    for k, wide in enumerate((2, 3, 4)):
        state = {"head.weight": torch.full((wide, 3), k + 1.0), "head.bias": torch.zeros(wide)}
        sent[k] = Update(k, state, 1, {})
    for _ in range(4):
        for k, request in summing.requests().items():
            summing.take(k, parties[k].answer("ab", request, sent[k], 1))
        summing.advance()
    (mean,) = summing.result()
    fresh = [grown(sent[k].state, 4, 0) for k in range(3)]
    expected = torch.stack([state["head.weight"] for state in fresh]).mean(0)
    assert torch.allclose(mean.state["head.weight"], expected, atol=1e-6)


@pytest.mark.parametrize("weight", [2**62, -(2**62)])
def test_a_spoilt_vector_whose_weight_cannot_be_is_left_out(weight):
    def spoil(step, k, answer):
        if step == "masked" and k == 1:
            answer["masked"][-1] += weight
        return answer

    said = []
    summing, parties = server(said), {k: party(k) for k in range(3)}
    for _ in range(4):
        asked(summing, parties, spoil=spoil)
    assert summing.result() == []
    assert said == ["the sum of round 1 is left out: its weight cannot be"]
