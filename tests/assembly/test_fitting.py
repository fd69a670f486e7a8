"""Settings that fit the data, and the rounds and models that come of them."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import ofcl
from ofcl import Run, make_settings
from ofcl.assembly import dataset_clients
from ofcl.assembly.make_learner import build_model
from ofcl.assembly.resolve import resolve
from ofcl.events import Evaluated, Round, TaskEnded
from tests.conftest import make_blobs, make_images


def fitted(data, **values):
    return resolve(make_settings(values), data)


def images(each, side=16, channels=1):
    return make_images(classes=5, train=each, test=2, side=side, channels=channels)


# What is chosen


def test_vectors_get_the_network_for_vectors_and_are_distilled():
    chosen = fitted(make_blobs(classes=6, train=600), clients=2, tasks=3)
    assert (chosen.model, chosen.optimizer, chosen.lr) == ("mlp", "adam", 0.003)
    assert (chosen.loss, chosen.distil, chosen.contrast, chosen.augment) == ("ace", 3.0, 0, "none")
    assert (chosen.steps, chosen.q, chosen.burn_in, chosen.previous) == (3, 5, 0, 0.0)
    assert (chosen.closing_round, chosen.replay, chosen.threads) == ("task", "all", 1)


def test_few_samples_get_more_steps_and_rounds_and_the_plain_loss():
    chosen = fitted(make_blobs(classes=6, train=20), clients=2, tasks=3)
    assert (chosen.loss, chosen.steps, chosen.q, chosen.distil) == ("ce", 10, 1, 1.0)


@pytest.mark.parametrize(
    ("classes", "tasks", "loss", "distil"),
    [(2, 2, "ce", 1.0), (3, 2, "ce", 1.0), (5, 3, "ce", 1.0), (4, 2, "ace", 3.0),
     (6, 3, "ace", 3.0), (7, 4, "ace", 1.0), (6, 6, "ace", 1.0), (8, 4, "ace", 3.0)],
)  # fmt: skip
def test_a_class_that_is_alone_in_a_task_is_not_held_back(classes, tasks, loss, distil):
    """By the asymmetric loss, its samples have none while they are new."""
    chosen = fitted(make_blobs(classes=classes, train=600), clients=2, tasks=tasks)
    assert (chosen.loss, chosen.distil) == (loss, distil)


def test_a_class_that_comes_alone_and_looks_like_others_is_learned():
    draw = np.random.default_rng(0)
    y = np.arange(900) % 3
    x = (draw.normal(size=(900, 4)) + 1.2 * np.eye(3, 4)[y]).astype(np.float32)
    parts = [torch.from_numpy(part) for part in (x[:600], y[:600], x[600:], y[600:])]
    data = ofcl.Dataset("overlapping", "vector", *parts, ("a", "b", "c"))
    result = ofcl.run(data, clients=2, tasks=2, memory=60)
    accuracy = np.array(result.accuracy, dtype=float)  # clients, after each task, of each task
    assert (accuracy[:, -1, 1] > 40).all()


@pytest.mark.parametrize(
    ("each", "side", "model", "augment", "contrast"),
    [
        (800, 16, "slim-resnet18", "strong", 1.0),  # 76 mini-batches a client
        (700, 16, "convnet", "none", 0.0),  # 66
        (800, 8, "convnet", "none", 0.0),  # too small to be changed at random
        (800, 6, "mlp", "none", 0.0),
    ],
)
def test_the_network_suits_the_number_and_the_size_of_images(each, side, model, augment, contrast):
    chosen = fitted(images(each, side))
    assert (chosen.model, chosen.augment, chosen.contrast) == (model, augment, contrast)
    many = model == "slim-resnet18"
    assert chosen.precision == ("bfloat16" if many else "float32")
    assert (chosen.distil, chosen.previous) == (0.5, 0.4) or not many


@pytest.mark.parametrize("each", [20, 800])
def test_settings_that_are_given_are_never_chosen(each):
    given = {"q": 7, "steps": 2, "loss": "ce", "distil": 0.25, "previous": 0.5, "width": 3,
             "augment": "flip-shift", "contrast": 0.125, "adam_lr": 0.02,
             "precision": "float32"}  # fmt: skip
    for model in ("mlp", "slim-resnet18", "convnet"):
        chosen = fitted(images(each), model=model, **given)
        assert {name: getattr(chosen, name) for name in given} == given
        assert chosen.model == model


def test_nothing_is_left_to_be_chosen_and_choosing_again_changes_nothing():
    data = images(20)
    chosen = fitted(data)
    assert chosen.fit == ()
    assert resolve(chosen, data) == chosen
    assert make_settings(chosen.model_dump()) == chosen


def test_every_seed_and_joint_training_get_the_same():
    data = make_blobs(classes=6, train=25)
    chosen = [fitted(data, seed=seed, joint=joint) for seed in range(3) for joint in (False, True)]
    assert len({(c.q, c.steps, c.loss, c.model) for c in chosen}) == 1


def test_other_protocols_choose_nothing():
    for protocol in ("sound", "published"):
        settings = make_settings({"protocol": protocol})
        assert settings.fit == ()
        assert settings.distil == 0
        assert settings.closing_round == "none"


def test_generative_methods_are_not_given_what_they_cannot_use():
    chosen = fitted(make_images(classes=4, train=10, side=32, channels=3), method="mfcl", tasks=2)
    assert (chosen.model, chosen.loss, chosen.distil) == ("slim-resnet18", "ce", 0)
    assert chosen.q == 1


def test_the_run_says_what_was_chosen():
    run = Run(make_settings({"steps": 4}), make_blobs(train=20))
    assert run.fitted == "model = mlp, q = 1, loss = ce, augment = none"
    assert Run(make_settings({"protocol": "sound"}), make_blobs(train=60)).fitted == ""


# What comes of it


@pytest.mark.parametrize(
    "data", [make_blobs(classes=6, train=8), images(12)], ids=["table", "image"]
)
def test_small_data_make_rounds_in_every_task_and_the_saved_model_is_what_the_result_says(
    tmp_path, data
):
    run = Run(make_settings({"memory": 20, "clients": 3}), data, tmp_path / "run")
    assert run.warnings == []
    rounds, of_tasks = 0, []
    for event in run:
        rounds += isinstance(event, Round)
        if isinstance(event, TaskEnded):
            of_tasks.append(rounds)
            rounds = 0
    assert len(of_tasks) == run.settings.tasks
    assert all(of_tasks)
    model = build_model(run.settings, data)
    missing, unexpected = model.load_state_dict(
        load_file(tmp_path / "run" / "model.safetensors"), strict=False
    )
    assert not unexpected
    assert all("num_batches" in name for name in missing)
    result = run.result()
    model.eval()
    last = [e.global_test for e in run.events if isinstance(e, Evaluated)][-3:]
    right = sum(hits for client in last for task in client for _, hits, _ in task)
    with torch.no_grad():
        predicted = model(data.prepare(data.x_test)).argmax(1)
    assert int((predicted == data.y_test).sum()) == right
    assert result.global_A == pytest.approx(result.A, abs=10)


def test_clients_are_tested_with_what_they_have_learned_together(blobs):
    run = Run(make_settings({"clients": 3, "memory": 20}), blobs)
    for event in run:
        if isinstance(event, Evaluated):
            assert event.test == event.global_test


@pytest.mark.parametrize("protocol", ["strong", "sound"])
def test_the_model_of_a_single_client_is_the_global_one(tmp_path, blobs, protocol):
    values = {"clients": 1, "memory": 20, "protocol": protocol, "model": "mlp"}
    run = Run(make_settings(values), blobs, tmp_path / "run")
    assert run.warnings == []
    for _ in run:
        pass
    result = run.result()
    assert result.global_A == pytest.approx(result.A)
    saved = load_file(tmp_path / "run" / "model.safetensors")
    own = run.clients[0].model.state_dict()
    assert all(torch.equal(saved[name], own[name]) for name in saved)


def test_a_single_client_learns_under_sound_what_it_learned_before(blobs, monkeypatch):
    """Its own model is what it gets back."""
    values = {"clients": 1, "memory": 20, "protocol": "sound", "method": "er"}
    with_rounds = ofcl.run(blobs, **values)
    assert with_rounds.rounds
    settings = resolve(make_settings(values), blobs)
    assert settings.closing_round == "none"
    monkeypatch.setattr(dataset_clients, "resolve_alone", lambda settings: settings)
    with pytest.warns(UserWarning, match="no round will happen"):
        alone = ofcl.run(blobs, **values)
    assert (alone.A, alone.F, alone.rounds) == (with_rounds.A, with_rounds.F, 0)


def test_a_model_that_was_never_averaged_is_not_saved(tmp_path, blobs):
    values = {"protocol": "sound", "clients": 2, "burn_in": 500, "memory": 20}
    run = Run(make_settings(values), blobs, tmp_path / "run")
    for _ in run:
        pass
    assert (tmp_path / "run" / "result.json").exists()
    assert not (tmp_path / "run" / "model.safetensors").exists()


def readings(seed, samples=60):
    draw = np.random.default_rng(seed)
    for _ in range(samples):
        label = "ill" if draw.random() < 0.5 else "well"
        yield draw.normal(3 if label == "ill" else 0, 1, size=4), label


@pytest.mark.parametrize("clients", [1, 3])
def test_streams_end_with_a_round(tmp_path, clients):
    streams = [readings(seed, 12) for seed in range(clients)]
    test = list(readings(99, 40))
    result = ofcl.run(streams=streams, test=test, out=tmp_path / "run", q=50, clients=clients)
    assert result.rounds == 1
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert result.global_A == pytest.approx(result.A)


def test_threads_are_one_for_small_networks_and_are_given_back(blobs):
    before = torch.get_num_threads()
    seen = []
    run = Run(make_settings({"memory": 20, "clients": 2, "threads": 3}), blobs)
    for _ in run:
        seen.append(torch.get_num_threads())
    assert set(seen) == {3}
    assert torch.get_num_threads() == before
