"""Every row of the table in docs/protocols.md: what `strong`, `sound` and `published` really do."""

import numpy as np
import pytest
import torch

import ofcl.uncertainty.scorer
from ofcl import Batch, build_scenario, make_settings
from ofcl.assembly.dealing import build_shares
from ofcl.assembly.make_client import build_barrier, build_dataset_client, build_schedule
from ofcl.assembly.make_learner import build_perturbation
from ofcl.assembly.make_server import build_server
from ofcl.assembly.resolve import resolve
from ofcl.methods.losses import proximal_term
from ofcl.report.spread import over_clients, over_seeds
from ofcl.update import Update
from tests.conftest import make_blobs, make_images

CIFAR = make_images(classes=10, train=20, test=2, side=32, channels=3)
PROTOCOLS = ["sound", "published"]


def settings_for(protocol, **values):
    values = {"clients": 2, "width": 2, "memory": 20, **values}
    return resolve(make_settings({"protocol": protocol, **values}), CIFAR)


def client_for(protocol, **values):
    settings = settings_for(protocol, **values)
    shares = build_shares(settings, CIFAR)
    return build_dataset_client(settings, CIFAR, 0, shares[0])


def batch_of(classes, task, n=10, seed=0):
    draw = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes).repeat(n)[:n]
    return Batch(torch.randn(n, 3, 32, 32, generator=draw), y, task)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_gradient_steps(protocol):
    """Three steps; the later ones see the new images changed and other samples of the memory."""
    learner = client_for(protocol, method="er").learner
    learner.learn(batch_of([0, 1], task=0), [0, 1])
    seen = []
    learner.model.register_forward_hook(lambda module, args, out: seen.append(args[0].clone()))
    batch = batch_of([2, 3], task=1, seed=1)
    learner.learn(batch, [2, 3])
    assert [len(x) for x in seen] == [20, 20, 20]
    new, old = [x[:10] for x in seen], [x[10:] for x in seen]
    assert torch.equal(new[0], batch.x)
    assert not torch.equal(new[1], batch.x)
    assert not torch.equal(new[1], new[2])
    assert not torch.equal(old[0], old[1])


@pytest.mark.parametrize(("protocol", "rate"), [("sound", 0.003), ("published", 3e-4)])
def test_rate_of_adam(protocol, rate):
    settings = resolve(make_settings({"protocol": protocol}), make_blobs())
    assert (settings.optimizer, settings.lr, settings.model) == ("adam", rate, "mlp")


@pytest.mark.parametrize(("protocol", "first", "second"),
                         [("sound", 1.0, 0.5), ("published", 0.25, 0.25)])  # fmt: skip
def test_share_of_the_new_average_in_the_global_model(protocol, first, second):
    """Published: ¼ new + ¾ previous when all clients share the task, from the initial model on."""
    server = build_server(settings_for(protocol), CIFAR)
    for share in (first, second):
        previous = server.model["head.bias"].clone()
        updates = [
            Update(k, {name: value + 8 for name, value in server.model.items()}, 10, {0: 5, 1: 5})
            for k in range(3)
        ]
        new = server.aggregate(updates)["head.bias"]
        assert torch.allclose(new, previous + 8 * share, atol=1e-5)


@pytest.mark.parametrize(("protocol", "share"), [("sound", 1.0), ("published", 0.5)])
def test_what_a_client_does_with_the_result(protocol, share):
    client = client_for(protocol)
    own = client.model.head.bias.detach().clone()
    received = {n: v.clone() + 4 for n, v in client.model.state_dict().items()}
    client.receive(received)
    assert torch.allclose(client.model.head.bias.detach(), own + 4 * share)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_batchnorm_statistics(protocol):
    """Sound: they travel like weights. Published: every round pulls them halfway to (0, 1)."""
    client, server = client_for(protocol), build_server(settings_for(protocol), CIFAR)
    norm = client.model.stem[1]
    norm.running_mean.fill_(6.0)
    norm.running_var.fill_(9.0)
    update = client.update()
    other = Update(1, {n: v.clone() for n, v in update.state.items()}, 10, {0: 10})
    first = Update(0, update.state, 10, {0: 10})
    client.receive(server.aggregate([first, other]))
    seen = (norm.running_mean[0].item(), norm.running_var[0].item())
    if protocol == "sound":
        assert "stem.1.running_mean" in update.state
        assert seen == (6.0, 9.0)
    else:
        assert "stem.1.running_mean" not in update.state
        assert seen == (3.0, 5.0)
    assert not any("num_batches" in name for name in update.state)


@pytest.fixture
def scoring_calls(monkeypatch):
    """What the scorer asks `uncertainty` for."""
    calls, real = [], ofcl.uncertainty.scorer.uncertainty

    def record(model, views, score, mode):
        head = model.head.bias.detach().clone()
        calls.append({"head": head, "n": views.shape[1], "score": score, "mode": mode})
        return real(model, views, score, mode)

    monkeypatch.setattr(ofcl.uncertainty.scorer, "uncertainty", record)
    return calls


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_model_that_scores(protocol, scoring_calls):
    """Published: the client's own just before its last round, in training mode."""
    client = client_for(protocol, method="bi")
    learn = client.learner.learn

    def head():
        return client.model.head.bias.detach().clone()

    initial = head()
    for seed in range(3):
        learn(batch_of([0, 1], task=0, seed=seed), [0, 1])
    assert torch.equal(scoring_calls[-1]["head"], initial)
    assert scoring_calls[-1]["mode"] == ("eval" if protocol == "sound" else "train")
    before = head()
    client.receive({n: v + 1 for n, v in client.model.state_dict().items()})
    after = head()
    learn(batch_of([0, 1], task=0, seed=9), [0, 1])
    expected = after if protocol == "sound" else before
    assert torch.equal(scoring_calls[-1]["head"], expected)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_how_long_a_score_is_kept(protocol, scoring_calls):
    """Sound: of remembered ones those at risk, after a round. Published: not at all."""
    client = client_for(protocol, method="bi")
    for seed in range(4):
        client.learner.learn(batch_of([0], task=0, seed=seed), [0])
    client.receive(dict(client.model.state_dict()))
    client.learner.learn(batch_of([0], task=0, seed=4), [0])
    scored = [call["n"] for call in scoring_calls]
    assert scored == ([10, 10, 10, 10, 15] if protocol == "sound" else [30, 30, 30])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_mean_of_the_scores_or_score_of_the_mean_softmax(protocol, scoring_calls):
    client = client_for(protocol, method="lc", memory=10)
    client.learner.learn(batch_of([0], task=0, n=11), [0])
    opposite = torch.tensor([[[20.0, 0.0]], [[0.0, 20.0]]])
    expected = 0.0 if protocol == "sound" else 0.5
    assert scoring_calls[0]["score"](opposite).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_perturbation_draws(protocol):
    """Published: one draw for the whole batch, on normalised pixels."""
    perturb = build_perturbation(settings_for(protocol), CIFAR)
    same = torch.full((6, 3, 32, 32), -1.0)
    views = perturb(same, torch.Generator().manual_seed(0))
    assert len(views) == 12
    per_sample = (views - views[:, :1]).abs().amax() > 1e-3
    assert per_sample == (protocol == "sound")
    brightness = views[7]  # of negative normalised pixels: clamped to 0 where they count as such
    assert (brightness == 0).all() == (protocol == "published")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_memory_after_it_is_full(protocol):
    """Published: shares are rounded down, and classes of past tasks keep their order."""
    memory = client_for(protocol, method="cbr", memory=20).learner.memory
    for task, classes in enumerate(([0, 1], [2])):
        for seed in range(6):
            batch = batch_of(classes, task, seed=seed)
            memory.update(batch.x, batch.y, task, classes)
    counts = torch.bincount(memory.samples.y).tolist()
    assert sorted(counts) == ([6, 7, 7] if protocol == "sound" else [6, 6, 8])


@pytest.mark.parametrize(("protocol", "kind"), [("sound", "squared"), ("published", "norms")])
def test_fedprox_term(protocol, kind):
    client = client_for(protocol, aggregation="fedprox")
    assert client.learner.penalty().item() == 0
    with torch.no_grad():
        client.model.head.bias.add_(2.0)
    parameters, anchor = list(client.model.parameters()), client.learner.penalty.state()
    expected = proximal_term(parameters, anchor, 0.01, kind).item()
    by_hand = 0.005 * (40 if kind == "squared" else 40**0.5)  # ten biases, each moved by 2
    assert client.learner.penalty().item() == pytest.approx(expected) == pytest.approx(by_hand)
    client.receive(dict(client.model.state_dict()))
    assert client.learner.penalty().item() == 0


@pytest.mark.parametrize(("protocol", "first"), [("sound", 35), ("published", 30)])
def test_round_condition(protocol, first):
    settings = settings_for(protocol)
    schedule = build_schedule(settings)
    assert [n for n in range(46) if schedule.due(n)] == list(range(first, 46, 5))
    server = build_server(settings, CIFAR)
    assert server.draw([1], clients=2) == []
    assert server.draw([0, 1], clients=2) == [0, 1]


def test_reported_spread():
    """Sound: over seeds. Published: over clients, of their means over runs."""
    assert make_settings({"protocol": "sound"}).spread == "seeds"
    assert make_settings({"protocol": "published"}).spread == "clients"
    runs = [[10.0, 20.0], [20.0, 30.0]]  # runs × clients
    assert str(over_seeds([15.0, 25.0])) == "20.00 ± 7.07"
    assert str(over_clients(runs)) == "20.00 ± 5.00"


def test_a_class_left_out():
    """CRC-Tissue: the text removes the smallest class, the released code the last of nine."""
    y = np.repeat(np.arange(9), [30, 20, 10, 40, 40, 40, 40, 40, 40])
    used = {
        drop: {c for task in build_scenario(y, y, 9, seed=0, tasks=4, clients=2,
                                            drop_class=drop)[0].tasks for c in task}
        for drop in ("smallest", "last")
    }  # fmt: skip
    assert set(range(9)) - used["smallest"] == {2}
    assert set(range(9)) - used["last"] == {8}


@pytest.mark.parametrize(("protocol", "sizes"),
                         [("sound", [3, 3, 3, 3, 2]), ("published", [2] * 5)])  # fmt: skip
def test_classes_that_do_not_divide(protocol, sizes):
    """DBPedia's 14 classes in 5 tasks: published uses 10 of them."""
    y = np.repeat(np.arange(14), 20)
    split = make_settings({"protocol": protocol}).class_split
    shares = build_scenario(y, y, 14, seed=0, tasks=5, clients=2, class_split=split)
    assert [len(task) for task in shares[0].tasks] == sizes


@pytest.mark.parametrize(("protocol", "rest"), [("sound", 0), ("published", 10 * 3)])
def test_data_split(protocol, rest):
    """5 % of train for validation; every class in equal parts, test data too."""
    y_train, y_test = np.repeat(np.arange(10), 100), np.repeat(np.arange(10), 23)
    settings = make_settings({"protocol": protocol})
    shares = build_scenario(
        y_train, y_test, 10, seed=0, clients=5, tasks=5, validation=settings.validation,
        remainder=settings.remainder)  # fmt: skip
    for share in shares:
        assert sum(map(len, share.train)) == 10 * 19
        assert sum(map(len, share.validation)) == 10 * 1
    assert sum(len(rows) for share in shares for rows in share.test) == 230 - rest


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_task_order(protocol):
    """Random, a function of the seed, the same for all clients."""
    orders = [
        build_shares(settings_for(protocol, seed=seed), CIFAR)[client].tasks
        for seed in (0, 1)
        for client in (0, 1)
    ]
    assert orders[0] == orders[1] != orders[2] == orders[3]


OWN_ROWS = {
    "protocol", "fit", "method", "replay", "replay_ratio", "loss", "augment", "augmented",
    "contrast", "distil", "closing_round", "model", "width", "burn_in", "previous", "steps", "q",
    "precision",
}  # fmt: skip
"""The settings of the rows in which `strong` is not `sound`."""


def test_strong_is_sound_but_for_the_rows_that_say_so():
    strong, sound = (dict(make_settings({"protocol": name})) for name in ("strong", "sound"))
    assert {name for name in strong if strong[name] != sound[name]} <= OWN_ROWS
    assert (strong["method"], sound["method"]) == ("cbr", "bi")
    assert (strong["replay"], strong["replay_ratio"]) == ("all", 3.0)
    assert (sound["replay"], sound["replay_ratio"]) == ("past", 1.0)
    assert (strong["burn_in"], strong["closing_round"], strong["augmented"]) == (0, "task", "all")


def test_strong_replays_three_samples_for_each_new_one_in_every_step():
    learner = client_for("strong", steps=2, augment="none", contrast=0.0, memory=40).learner
    for seed in range(4):
        learner.learn(batch_of([0, 1], task=0, seed=seed), [0, 1])
    seen = []
    learner.model.register_forward_hook(lambda module, args, out: seen.append(args[0].clone()))
    learner.learn(batch_of([2, 3], task=1, seed=1), [2, 3])
    assert [len(x) for x in seen] == [40, 40]
    assert torch.equal(seen[0][:10], seen[1][:10])
    assert not torch.equal(seen[0][10:], seen[1][10:])


def test_strong_changes_new_and_replayed_images_alike():
    learner = client_for("strong", steps=2, augment="strong", contrast=1.0).learner
    learner.learn(batch_of([0, 1], task=0), [0, 1])
    seen = []
    features = learner.model.features
    learner.model.features = lambda x: (seen.append(x.clone()), features(x))[1]
    batch = batch_of([2, 3], task=1, seed=1)
    learner.learn(batch, [2, 3])
    first, _ = learner.memory.at(torch.arange(10))
    assert [len(x) for x in seen] == [40, 40]  # two views of ten new and ten replayed ones
    for x in seen:
        assert not any(torch.equal(image, as_it_came) for image in x for as_it_came in first)
        assert not any(torch.equal(image, as_it_came) for image in x for as_it_came in batch.x)


@pytest.mark.parametrize("protocol", ["strong", "sound", "published"])
def test_the_end_of_a_task(protocol):
    settings = settings_for(protocol)
    assert build_barrier(settings) == ("before-test" if protocol == "strong" else "none")
    assert build_barrier(settings_for(protocol, stagger=3)) == (
        "at-end" if protocol == "strong" else "none"
    )


@pytest.mark.parametrize("protocol", ["strong", "sound", "published"])
def test_models_predict_by_their_head(protocol):
    settings = settings_for(protocol)
    assert settings.classifier == "head"
    assert not build_server(settings, CIFAR).surveys
