"""Augmentations: what they do to samples, and what the learner shows to the model."""

import math

import pytest
import torch

import ofcl
from ofcl import Run, make_settings
from ofcl.data.stream import Batch
from ofcl.methods.augmentations import BRIGHTNESS, CONTRAST, FlipAndRotate, FlipAndShift, Noise
from ofcl.methods.losses import members
from ofcl.models.head import outputs
from ofcl.seeds import generator
from ofcl.testing import check_change
from tests.conftest import TINY, TINY_IMAGES
from tests.uncertainty.test_perturbations import centre, square


@pytest.mark.parametrize("change", [FlipAndShift(), FlipAndShift(colours=True)])
def test_images_keep_the_contract_of_changes(change):
    check_change(change, (3, 8, 8))


def test_vectors_keep_the_contract_of_changes():
    check_change(Noise(0.1), (5,))


def test_training_augmentation_flips_and_turns_by_at_most_20_degrees():
    x = square(side=32, n=300)
    out = FlipAndRotate()(x, generator(0, "augment"))
    middle, start = 15.5, torch.tensor(centre(x[0])) - 15.5
    angles, flips = [], 0
    for image in out:
        place = torch.tensor(centre(image)) - middle
        mirrored = torch.stack([place[0], -place[1]])
        a, b = (torch.rad2deg(torch.atan2(start[0] * p[1] - start[1] * p[0], start @ p)).abs()
                for p in (place, mirrored))  # fmt: skip
        flips += int(b < a)
        angles.append(min(a, b).item())
    assert max(angles) < 23
    assert 110 < flips < 190


def test_the_global_generator_is_untouched():
    before = torch.get_rng_state()
    FlipAndRotate()(torch.rand(2, 1, 8, 8, generator=generator(0, "x")), generator(0, "x"))
    assert torch.equal(torch.get_rng_state(), before)


def test_images_are_flipped_half_of_the_time_and_shifted_by_whole_pixels():
    x = torch.zeros(2000, 1, 16, 16)
    x[:, 0, 8, 5] = 1.0  # one bright pixel, left of the middle
    moved = FlipAndShift()(x, generator(0, "u"))
    assert torch.equal(moved.sum((1, 2, 3)), torch.ones(2000))  # nothing is blurred or lost
    rows, columns = (moved.flatten(1).argmax(1) // 16, moved.flatten(1).argmax(1) % 16)
    assert rows.unique().tolist() == [6, 7, 8, 9, 10]  # an eighth of 16 is 2
    assert set(columns.tolist()) == {3, 4, 5, 6, 7} | {8, 9, 10, 11, 12}
    assert (columns >= 8).float().mean().item() == pytest.approx(0.5, abs=0.05)


def test_colours_change_contrast_and_brightness_and_some_become_grey():
    x = torch.rand(2000, 3, 4, 4, generator=generator(0, "x"))
    changed = FlipAndShift(colours=True)(x, generator(1, "u"))
    grey = (changed - changed.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-6
    assert grey.float().mean().item() == pytest.approx(0.2, abs=0.03)
    draws = FlipAndShift(colours=True).draw(x.shape, generator(1, "u"))[0]
    contrast, brightness = draws[:, 9], draws[:, 10]
    assert contrast.min() >= 1 - CONTRAST
    assert contrast.max() <= 1 + CONTRAST
    assert brightness.abs().max() <= BRIGHTNESS
    plain = FlipAndShift()(x, generator(1, "u"))
    mean = plain.mean((1, 2, 3))
    assert torch.allclose(changed.mean((1, 2, 3)), mean + brightness, atol=1e-5)


def test_noise_is_a_share_of_the_samples_size():
    x = torch.full((2000, 5), 2.0)
    changed = Noise(0.1)(x, generator(0, "u"))
    assert (changed - x).std().item() == pytest.approx(0.2, rel=0.05)


def learner_with(data, base, **change):
    run = Run(make_settings({**base, "method": "cbr", "replay": "all", **change}), data)
    for n, _ in enumerate(run):
        if n == 12:
            break
    return run.clients[0].learner


def lesson_of(learner, data):
    x = data.prepare(data.x_train[:5])
    return learner.begin(Batch(x, data.y_train[:5], 0), [0, 1])


def test_so_many_are_replayed_for_each_new_one(blobs):
    learner = learner_with(blobs, TINY, replay_ratio=2)
    x, y = learner.seen(lesson_of(learner, blobs))
    assert x.shape[:2] == y.shape == (2, 15)  # five new ones and ten of the memory's twelve


def test_new_and_replayed_images_are_changed_in_every_step(images):
    learner = learner_with(images, TINY_IMAGES, augment="strong", augmented="all")
    lesson = lesson_of(learner, images)
    x, y = learner.seen(lesson)
    old_x, old_y = learner.memory.at(lesson.places)
    assert x.shape[:2] == y.shape == (2, 10)
    assert torch.equal(y[:, 5:], old_y)
    assert (x[0, :5] - lesson.x).abs().amax((1, 2, 3)).min() > 0
    assert (x[:, 5:] - old_x).abs().amax((2, 3, 4)).min() > 0
    assert not torch.equal(x[0, :5], x[1, :5])


def test_a_contrastive_term_sees_two_views_of_all(images):
    change = {"augment": "flip-shift", "augmented": "all", "contrast": 0.5}
    learner = learner_with(images, TINY_IMAGES, **change)
    x, y = learner.seen(lesson_of(learner, images))
    assert x.shape[1] == 2 * y.shape[1] == 20
    one, other = x[0].view(2, 10, *x.shape[2:])
    assert not torch.equal(one, other)


RECIPE = {"loss": "ace", "replay": "all", "replay_ratio": 3, "augmented": "all", "contrast": 0.5}


@pytest.mark.parametrize(("kind", "augment"), [("image", "strong"), ("vector", "noise")])
def test_a_run_of_all_of_it_stops_anywhere_and_ends_alike(tmp_path, blobs, images, kind, augment):
    data, base = (images, TINY_IMAGES) if kind == "image" else (blobs, TINY)
    values = {**base, **RECIPE, "augment": augment, "method": "cbr"}
    whole = ofcl.run(data, **values, out=tmp_path / "whole")
    run = Run(make_settings({**values, "dataset": data.name, "checkpoint_every": 1}), data,
              tmp_path / "broken")  # fmt: skip
    for n, _ in enumerate(run):
        if n == 20:
            break
    run.close()
    again = ofcl.resume(tmp_path / "broken", dataset=data)
    assert (again.A, again.anytime_loss) == (whole.A, whole.anytime_loss)
    assert math.isfinite(again.anytime_loss)


def test_yes_and_no_of_earlier_settings_files_are_names_now():
    assert make_settings({"augment": True}).augment == "flip-rotate"
    assert make_settings({"augment": False}).augment == "none"


def test_both_views_are_classified(images):
    change = {"augment": "flip-shift", "augmented": "all", "contrast": 0.5}
    learner = learner_with(images, TINY_IMAGES, **change)
    x, y = learner.seen(lesson_of(learner, images))
    current = members([0, 1], of=outputs(learner.model))
    learner.model.train()
    logits, loss = learner._step_loss(x[0], y[0], 5, current, torch.empty(0), is_first=True)
    features = learner.model.features(x[0])
    one, other = learner.model.head(features).split(10)
    assert torch.allclose(logits, one, atol=1e-5)
    classified = (learner.loss(one, y[0], 5, current) + learner.loss(other, y[0], 5, current)) / 2
    whole = classified + learner.contrast(features, y[0].repeat(2))
    assert torch.allclose(loss, whole, rtol=1e-5)


def test_a_cpu_computes_in_float32_whatever_the_precision(images):
    results = [
        ofcl.run(images, **TINY_IMAGES, method="er", precision=precision, device="cpu")
        for precision in ("float32", "bfloat16")
    ]
    assert results[0].anytime_loss == results[1].anytime_loss
