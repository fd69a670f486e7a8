"""What updates leave a party: none of few new samples, and the same noisy one after a kill."""

import numpy as np
import pytest
import torch

from ofcl import OfclError
from ofcl.engines.messages import Request, pack_request
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_policy import Policy
from ofcl.federation.terms import Terms, pack
from tests.federation.test_trust import attack, error_of, table, with_noise_of
from tests.support.federation import EXACT, SMALL, InProcess, hosted, member, members
from tests.support.remote import assert_same, over_the_wire


def digits(folder, count):
    """A dataset of a party's own, with so many train samples."""
    whole = open_source({"dataset": "digits"}, False, lambda _: None)._dataset
    x, y = whole.x_train.numpy()[:, 0], whole.y_train.numpy()
    parts = {
        f"{part}_{what}": values[:count]
        for part in ("train", "val", "test")
        for what, values in (("images", x), ("labels", y))
    }
    file = folder / "own.npz"
    np.savez(file, **parts)
    return open_source({"dataset": str(file)}, False, lambda _: None)


class Attacker:
    """A server that asks a party of 17 samples for an update after each mini-batch of 16."""

    def __init__(self, folder, policy, **how):
        folder.mkdir()
        source = digits(folder, 17)
        labels = tuple("0123456789")
        values = attack(hidden=64, optimizer="sgd", lr=0.1, augment="none", tasks=1, batch_size=16)
        self.terms = Terms({**values, **how}, 3, labels, 10, source.samples())
        run, _ = hosted(folder, InProcess(members(folder / "form")), {**SMALL, "hidden": 64})
        self.model = run.server.model
        self.folder, self.source, self.policy, self.told = folder, source, policy, []
        self.start()
        dataset = source._dataset
        self.truth = dataset.prepare(dataset.x_train).flatten(1)

    def start(self):
        """The party's process begins, for the first time or again."""
        self.party = member(self.folder, 0, self.source, policy=self.policy)
        self.party._responder._tell = self.told.append

    def update(self, exchange, *steps):
        request = pack_request(Request("ab", exchange, steps, self.model))
        message = {"request": request, "terms": pack(self.terms)}
        return over_the_wire(self.party.answer(over_the_wire(message)))["update"]

    def recovered(self, state):
        """The least error of the samples that an update shows; None: it shows none."""
        weight, bias = (state[n] - self.model[n] for n in ("hidden.weight", "hidden.bias"))
        units = bias.abs() > 1e-6
        guesses = weight[units] / bias[units, None]
        return error_of(guesses, self.truth) if len(guesses) else None


@pytest.mark.parametrize("killed", [False, True])
def test_the_rest_of_a_task_is_not_an_update_of_its_own(tmp_path, killed):
    open_party = Attacker(tmp_path / "a", Policy(min_rest=1, update_noise=0.0))
    open_party.update(1)
    assert open_party.recovered(open_party.update(2, "take")["state"]) < 1e-3  # the 17th sample
    server = Attacker(tmp_path / "b", Policy())
    assert server.update(1)["samples"] == 16
    if killed:
        server.start()
    kept_back = server.update(2, "take")
    assert server.recovered(kept_back["state"]) is None
    assert (
        server.party._responder._client.sender.keeps_back
    )  # nor does it agree to show its own model
    assert_same(kept_back["state"], {name: server.model[name] for name in kept_back["state"]})
    assert (kept_back["samples"], kept_back["classes"]) == (0, [])
    assert any("1 new samples are too few for an update (your limit is 2)" in t for t in
               server.told)  # fmt: skip


def test_nothing_is_kept_back_from_a_secure_sum(tmp_path):
    """Without weight it would leave fewer updates to hide among."""
    server = Attacker(tmp_path / "a", EXACT, secure_aggregation=True)
    assert server.update(1) is None
    assert server.update(2, "take") is None
    held = server.party._responder._held
    assert held.samples == 17
    assert server.recovered(held.state) < 1e-3  # in the party alone: the sum hides it


def test_the_log_says_in_plain_words_what_a_run_asks_for_before_it_begins(tmp_path):
    server = Attacker(tmp_path / "a", Policy())
    server.party._tell = (told := []).append
    server.update(1)
    assert told[:2] == [
        "run ab: none with mlp, memory 40, no privacy noise, but noise of 2 times an update's "
        "change at least (your limit); an update from every 16 new samples; the server sees your "
        "updates",
        "ledger: no update has left these data yet",
    ]
    assert told[2].startswith("exchange 1: 1 mini-batches so far")
    hostile = Attacker(tmp_path / "b", Policy(), memory="9\nall is well\x1b[2J")
    hostile.party._tell = (told := []).append
    with pytest.raises(OfclError):
        hostile.update(1)
    assert all(line.isprintable() for line in told)


def test_a_run_in_which_one_party_has_few_new_samples_goes_on(tmp_path):
    """Its closing update has no weight; the others' model is the global one."""
    parties = {k: member(tmp_path, k) for k in (0, 1)}
    (tmp_path / "few").mkdir()
    few = digits(tmp_path / "few", 36)  # of 10, 10, 10 and 6
    parties[2] = member(tmp_path, 2, few, policy=Policy(min_rest=7))
    parties[2]._responder._tell = (told := []).append
    change = {"protocol": "strong", "tasks": 1, "q": 3, "burn_in": 0, "steps": 1, "limit": 4,
              "batch_size": 10}  # fmt: skip
    run, said = hosted(tmp_path, InProcess(parties), {**SMALL, **change})
    list(run)
    assert run.result().rounds == 2
    assert any("6 new samples are too few" in line for line in told)
    assert not any("hospital-c" in line for line in said if "connected" not in line)


def test_a_killed_party_sends_the_same_noisy_update_again(tmp_path):
    """Two draws of the noise would have a mean of less noise."""
    server = Attacker(tmp_path / "a", Policy(), dp_clip=1.0, dp_noise=2.0)
    first = server.update(1)["state"]
    server.start()
    assert_same(server.update(1)["state"], first)
    other = Attacker(tmp_path / "b", Policy(), dp_clip=1.0, dp_noise=2.0).update(1)["state"]
    assert not torch.equal(other["hidden.bias"], first["hidden.bias"])


def change_of(server, state):
    """The change of an update's hidden weights since the server's model."""
    return state["hidden.weight"] - server.model["hidden.weight"]


def test_updates_have_the_noise_of_the_policy_and_no_second_one(tmp_path):
    exact = Attacker(tmp_path / "a", Policy(update_noise=0.0))
    change = change_of(exact, exact.update(1)["state"])
    noisy = Attacker(tmp_path / "b", Policy(update_noise=2.0))
    sent = noisy.update(1)["state"]
    noise = change_of(noisy, sent) - change
    assert float(noise.square().mean().sqrt()) == pytest.approx(
        2 * float(change.square().mean().sqrt()), rel=0.1
    )
    assert not noisy.recovered(sent) < 0.1  # exact.recovered is 0
    noisy.start()  # killed after it was saved: two draws would have a mean of less noise
    assert_same(noisy.update(1)["state"], sent)
    summed = Attacker(tmp_path / "d", Policy(update_noise=2.0), secure_aggregation=True)
    assert summed.update(1) is None
    assert not summed.recovered(summed.party._responder._held.state) < 0.1


@pytest.mark.parametrize("noise", [0.0, 1e-30])
def test_a_server_cannot_switch_the_noise_off_by_privacy_without_noise(tmp_path, noise):
    open_party = Attacker(tmp_path / "a", EXACT, dp_clip=1e4, dp_noise=noise)
    assert open_party.recovered(open_party.update(1)["state"]) < 1e-3
    server = Attacker(tmp_path / "b", Policy(), dp_clip=1e4, dp_noise=noise)
    assert server.recovered(server.update(1)["state"]) > 0.3


def test_a_server_that_asks_again_without_letting_learn_gets_the_same_update(tmp_path):
    """Else a mean of many draws, or draws measured by nearer and nearer models, show all."""
    server = Attacker(tmp_path / "a", Policy())
    model, first = server.model, server.update(1)["state"]
    for exchange in range(2, 6):
        server.model = {name: (model[name] + first[name]) / 2 for name in model}
        assert_same(server.update(exchange)["state"], first)
    server.start()  # killed in between
    assert_same(server.update(6)["state"], first)


def test_statistics_are_kept_back_or_noisy_and_asked_twice_the_same(tmp_path):
    whole = table(tmp_path, 0).samples()
    assert whole.mean and whole.count  # noqa: PT018
    none = Policy(statistics=False).released(whole, "secret")
    assert (none.mean, none.std, none.count) == ((), (), 0)
    noisy = Policy(statistics_noise=0.5)
    released = noisy.released(whole, "secret")
    assert released == noisy.released(whole, "secret")
    assert released.mean != whole.mean
    assert released.std != whole.std
    assert released.mean != noisy.released(whole, "other").mean


def test_a_run_gets_no_more_updates_than_the_policy_says(tmp_path):
    server = Attacker(tmp_path / "a", Policy(min_samples=1, most_rounds=1))
    server.update(1)
    with pytest.raises(OfclError, match="this would be update 2 of the run; .*most_rounds is 1"):
        server.update(2, "take")


def test_a_run_with_the_usual_noise_learns(tmp_path, monkeypatch):
    """Noise of several parties averages out; what one of them learned is hidden in it."""
    with_noise_of(0, monkeypatch)
    settings = {**SMALL, "protocol": "strong", "tasks": 2, "hidden": 64, "limit": 20,
                "method": "cbr"}  # fmt: skip
    reached = {}
    for name, policy in (("exact", EXACT), ("noisy", Policy())):
        run, said = hosted(tmp_path, InProcess(members(tmp_path / name, policy=policy)), settings)
        list(run)
        reached[name] = run.result().global_A
        assert not [line for line in said if "rejected" in line or "bound" in line]
    assert reached["exact"] > 50
    assert reached["noisy"] > reached["exact"] - 5
    assert reached["noisy"] != reached["exact"]
