"""Wrong labels and broken inputs in what clients learn; what they are tested on stays clean."""

import numpy as np
import pytest
import torch

import ofcl
from ofcl import OfclError, make_settings
from ofcl.assembly.dealing import build_shares
from ofcl.assembly.make_client import build_dataset_client
from ofcl.assembly.resolve import resolve
from ofcl.data.noise import break_inputs, noisy_train
from ofcl.testing import make_blobs, make_images
from tests.conftest import TINY

BLOBS, IMAGES = make_blobs(train=60), make_images(train=40)


def share_of(data, client=0, **values):
    settings = resolve(make_settings({"clients": 2, "tasks": 2, **values}), data)
    return build_shares(settings, data)[client]


def noisy(data, client=0, seed=0, label_noise=0.0, input_noise=0.0, **values):
    share = share_of(data, client, **values)
    noise = {"label_noise": label_noise, "input_noise": input_noise}
    x, y, rows = noisy_train(data, share, client, seed, **noise)
    of_stream = np.concatenate(share.train)
    order = torch.from_numpy(np.concatenate(rows))
    return x[order], y[order], data.x_train[of_stream], data.y_train[of_stream], share


def test_without_noise_the_data_are_the_datasets_own():
    x, y, rows = noisy_train(BLOBS, share_of(BLOBS), 0, 0, label_noise=0.0, input_noise=0.0)
    assert x is BLOBS.x_train
    assert y is BLOBS.y_train
    assert all(map(np.array_equal, rows, share_of(BLOBS).train))


@pytest.mark.parametrize("values", [{}, {"blurry": 0.3}, {"joint": True}])
def test_the_share_of_labels_that_is_asked_for_is_wrong_and_of_the_same_task(values):
    before = BLOBS.y_train.clone()
    x, y, clean_x, clean_y, share = noisy(BLOBS, label_noise=0.2, **values)
    wrong = (y != clean_y).nonzero()[:, 0].tolist()
    assert len(wrong) == round(0.2 * len(y))
    task_of = {c: t for t, classes in enumerate(share.tasks) for c in classes}
    assert all(task_of[int(y[n])] == task_of[int(clean_y[n])] for n in wrong)
    assert torch.equal(x, clean_x)
    assert torch.equal(BLOBS.y_train, before)  # others learn from it too


@pytest.mark.parametrize("data", [BLOBS, IMAGES], ids=["vectors", "images"])
def test_the_share_of_inputs_that_is_asked_for_is_broken(data):
    before = data.x_train.clone()
    x, y, clean_x, clean_y, _ = noisy(data, input_noise=0.1)
    broken = (x != clean_x).flatten(1).any(1)
    assert int(broken.sum()) == round(0.1 * len(x))
    assert x.dtype == clean_x.dtype
    assert torch.equal(y, clean_y)
    assert torch.equal(data.x_train, before)


def test_images_become_random_black_or_covered():
    x = torch.full((300, 3, 10, 10), 200, dtype=torch.uint8)
    broken = break_inputs(x, "image", np.random.default_rng(0))
    black = (broken == 0).float().mean((1, 2, 3))
    kinds = [(black == 1).sum(), ((black - 0.64).abs() < 1e-6).sum(), (black < 0.1).sum()]
    assert sum(kinds) == 300  # all black, a square of 8 × 8 of 10 × 10, random pixels
    assert min(kinds) > 70


def test_vectors_keep_their_length():
    x = torch.randn(100, 20, generator=torch.Generator().manual_seed(0))
    broken = break_inputs(x, "vector", np.random.default_rng(0))
    assert torch.allclose(broken.norm(dim=1), x.norm(dim=1), rtol=1e-5)
    permuted = (broken.sort(1).values == x.sort(1).values).all(1)
    assert 30 < int(permuted.sum()) < 70
    assert (broken != x).any(1).all()


def test_draws_depend_on_seed_and_client_alone():
    first, second = (noisy(BLOBS, label_noise=0.3, input_noise=0.3) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    one = noisy(BLOBS, label_noise=0.3)
    assert not torch.equal(
        one[1] != one[3], (other := noisy(BLOBS, seed=1, label_noise=0.3))[1] != other[3]
    )


def test_only_the_stream_is_noisy():
    settings = resolve(make_settings({**TINY, "label_noise": 1.0, "validation": 0.2}), BLOBS)
    share = build_shares(settings, BLOBS)[0]
    client = build_dataset_client(settings, BLOBS, 0, share)
    batch = next(client.stream)
    rows = torch.from_numpy(share.train[0][: len(batch.y)])
    assert torch.equal(batch.x, BLOBS.x_train[rows])
    assert (batch.y != BLOBS.y_train[rows]).all()
    held_out = client._held_out.validation
    assert torch.equal(held_out._y, BLOBS.y_train)


def test_all_methods_meet_the_same_noise(monkeypatch):
    seen = {}
    for method in ("er", "loss"):
        settings = resolve(make_settings({**TINY, "label_noise": 0.5, "method": method}), BLOBS)
        client = build_dataset_client(settings, BLOBS, 0, build_shares(settings, BLOBS)[0])
        seen[method] = torch.cat([batch.y for batch in client.stream])
    assert torch.equal(seen["er"], seen["loss"])


def test_wrong_labels_are_harder_to_learn():
    clean, wrong = (ofcl.run(BLOBS, **TINY, method="er", label_noise=noise) for noise in (0.0, 0.6))
    assert wrong.anytime_loss > clean.anytime_loss


def test_a_task_of_one_class_has_no_wrong_label():
    with pytest.raises(OfclError, match="a task has one class alone"):
        noisy(BLOBS, label_noise=0.1, tasks=len(BLOBS.labels))


@pytest.mark.parametrize("name", ["label_noise", "input_noise"])
def test_noise_is_for_datasets_on_one_machine(name):
    with pytest.raises(OfclError, match=f"{name} is for datasets"):
        make_settings({"streams": ("-",), name: 0.1})
