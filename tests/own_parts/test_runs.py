"""Runs with parts of one's own: learned, saved, resumed with the same code, used later."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.aggregation import fedavg
from ofcl.memory.policy import Policy, random_key
from ofcl.methods import METHODS, Method
from ofcl.methods.augmentations import Noise
from ofcl.testing import TINY, make_blobs
from ofcl.uncertainty.change import Change

HERE = "tests.own_parts.test_runs"
CALLS = []


def net(num_classes):
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, num_classes))


def loss(logits, y):
    CALLS.append("loss")
    return F.cross_entropy(logits, y, label_smoothing=0.1)


def score(logits):
    CALLS.append("score")
    return 1 - logits.softmax(-1).amax(-1).mean(0)


def policy(parts):
    CALLS.append("policy")
    return Policy(random_key(parts.generator))


class Shaken(Change):
    def draw(self, shape, generator):
        CALLS.append("augment")
        return torch.randn((1, *shape), generator=generator)

    def apply(self, x, draws):
        return x + 0.01 * draws[0]


def average(updates, previous=None):
    CALLS.append("aggregation")
    return fedavg(updates, previous)


METHOD = Method("keeps by chance", METHODS["cbr"].policy)

PARTS = {
    "model": net, "loss": loss, "score": score, "augment": Shaken, "aggregation": average,
    "optimizer": torch.optim.AdamW, "method": "cbr",
}  # fmt: skip


@pytest.fixture
def blobs():
    return make_blobs(train=20)


def settings(**more):
    return {**TINY, "burn_in": 0, "device": "cpu", "lr": 0.01, **more}


def test_every_part_is_used_and_a_stopped_run_ends_like_one_that_was_not(blobs, tmp_path):
    CALLS.clear()
    whole = ofcl.run(blobs, out=tmp_path / "whole", **settings(**PARTS))
    assert {"loss", "score", "augment", "aggregation"} <= set(CALLS)
    stopped = Run(make_settings(settings(**PARTS, checkpoint_every=1)), blobs, tmp_path / "stopped")
    for n, _ in enumerate(stopped):
        if n == 40:
            stopped.save()
            break
    stopped.close()
    allowed = [f"{HERE}:{part}" for part in ("net", "loss", "score", "Shaken", "average")]
    allowed.append("torch.optim.adamw:AdamW")
    with pytest.raises(OfclError, match=f"--allow {HERE}:net"):
        ofcl.resume(tmp_path / "stopped", dataset=blobs)
    with pytest.raises(OfclError, match=f"score = '{HERE}:score'"):
        ofcl.resume(
            tmp_path / "stopped", dataset=blobs, allow=[a for a in allowed if "score" not in a]
        )
    again = ofcl.resume(tmp_path / "stopped", dataset=blobs, allow=allowed)
    assert again.accuracy == whole.accuracy
    states = [
        ofcl.load(tmp_path / name, allow=allowed).module.state_dict()
        for name in ("whole", "stopped")
    ]
    assert all(
        torch.equal(value, states[1][name])
        for name, value in states[0].items()
        if "dice" not in name
    )


def test_objects_are_asked_for_again(blobs, tmp_path):
    network = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 6))
    run = Run(make_settings(settings(model=network, checkpoint_every=1)), blobs, tmp_path / "run")
    assert run.settings.model.startswith("python:Sequential")
    for n, _ in enumerate(run):
        if n == 30:
            run.save()
            break
    run.close()
    with pytest.raises(OfclError, match="is not the one of this run"):
        ofcl.resume(tmp_path / "run", dataset=blobs, model=lambda: network)
    with pytest.raises(OfclError, match="was not given a loss of your own"):
        ofcl.resume(tmp_path / "run", dataset=blobs, model=network, loss=loss)
    result = ofcl.resume(tmp_path / "run", dataset=blobs, model=network)
    model = ofcl.load(tmp_path / "run", model=network)
    right = model.predict(blobs.x_test) == [blobs.labels[c] for c in blobs.y_test]
    assert 100 * right.mean() == pytest.approx(result.global_A)


def test_changed_code_is_refused(blobs, tmp_path, monkeypatch):
    source = "from torch import nn\ndef net(num_classes):\n    return nn.Linear(8, num_classes)\n"
    (tmp_path / "changing_net.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    name = "changing_net:net"
    run = Run(make_settings(settings(model=name, checkpoint_every=1)), blobs, tmp_path / "run")
    for n, _ in enumerate(run):
        if n == 20:
            run.save()
            break
    run.close()
    (tmp_path / "changing_net.py").write_text(source + "# changed\n")
    with pytest.raises(
        OfclError, match="the model is not the one of this run: it was changing_net"
    ):
        ofcl.resume(tmp_path / "run", dataset=blobs, allow=[name])


def test_a_policy_and_a_method_of_ones_own(blobs):
    CALLS.clear()
    assert ofcl.run(blobs, **settings(method=METHOD, policy=policy)).rounds > 0
    assert CALLS.count("policy") == 2
    with pytest.raises(OfclError, match="policy is for methods with a memory"):
        ofcl.run(blobs, **settings(method="none", policy=policy))
    with pytest.raises(OfclError, match="must be an ofcl.methods.Method"):
        ofcl.run(blobs, **settings(method=f"{HERE}:net"))


def test_frozen_parts_do_not_travel_and_are_in_the_saved_model(blobs, tmp_path):
    network = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 6))
    network[0].requires_grad_(False)
    before = network[0].weight.clone()
    for aggregation in ("fedavg", "fedprox"):
        run = Run(
            make_settings(settings(model=network, aggregation=aggregation)),
            blobs,
            tmp_path / aggregation,
        )
        for _ in run:
            pass
        assert sorted(run.server.model) == ["head.bias", "head.weight"]
        assert torch.equal(run.clients[0].model.body[0].weight, before)
        model = ofcl.load(tmp_path / aggregation, model=network)
        assert torch.equal(model.module.body[0].weight, before)
        right = model.predict(blobs.x_test) == [blobs.labels[c] for c in blobs.y_test]
        assert 100 * right.mean() == pytest.approx(run.result().global_A)


def test_a_frozen_network_gets_a_head_that_learns(blobs):
    network = nn.Sequential(nn.Linear(8, 6), nn.ReLU()).requires_grad_(False)
    assert ofcl.run(blobs, **settings(model=network)).rounds > 0


def test_a_wrong_augmentation_or_optimizer_is_said(blobs):
    with pytest.raises(OfclError, match="must be an ofcl.uncertainty.change.Change"):
        ofcl.run(blobs, **settings(augment=lambda: 3))
    with pytest.raises(OfclError, match="must make a torch.optim.Optimizer"):
        ofcl.run(blobs, **settings(optimizer=lambda parameters, lr: 3))


def test_an_augmentation_may_be_an_object(blobs):
    assert ofcl.run(blobs, **settings(augment=Noise(0.1), augmented="all")).rounds > 0
