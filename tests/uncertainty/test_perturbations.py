import numpy as np
import pytest
import torch

from ofcl import OfclError
from ofcl.seeds import generator
from ofcl.uncertainty.homographies import Turn, turn_matrices
from ofcl.uncertainty.image_operations import warp
from ofcl.uncertainty.perturbations import (
    IMAGE_PERTURBATIONS,
    ImageViews,
    NoisyCopies,
    choose_perturbations,
)

PLAIN = {"mean": (0.0,), "std": (1.0,)}


def views_of(name, x, seed=0, **options):
    return ImageViews((name,), **{**PLAIN, **options})(x, generator(seed, "views"))[0]


def square(side=16, n=1):
    """A bright square off the centre, near enough to stay inside whatever way it is turned."""
    x = torch.zeros(n, 1, side, side)
    start = side // 4
    x[:, :, start : start + 4, start + 1 : start + 5] = 1
    return x


def centre(image):
    """Row and column of the centre of mass."""
    mass = image[0] / image[0].sum()
    places = torch.arange(image.shape[-1]).float()
    return (mass.sum(1) @ places).item(), (mass.sum(0) @ places).item()


def test_there_are_twelve_in_the_papers_order():
    assert len(IMAGE_PERTURBATIONS) == 12
    assert choose_perturbations(["all"]) == IMAGE_PERTURBATIONS
    assert choose_perturbations(["1", "invert", "1"]) == ("cutout-10", "invert")
    with pytest.raises(OfclError, match="unknown perturbation 'hflp'.*Did you mean 'hflip'"):
        choose_perturbations(["hflp"])
    with pytest.raises(OfclError, match="unknown perturbation '13'"):
        choose_perturbations(["13"])


@pytest.mark.parametrize("name", IMAGE_PERTURBATIONS)
@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 28, 28), (1, 12, 20)])
def test_shape_finiteness_and_the_same_draw_for_the_same_seed(name, shape):
    x = torch.rand(5, *shape)
    view = views_of(name, x, mean=(0.4,) * shape[0], std=(0.2,) * shape[0])
    assert view.shape == x.shape
    assert view.isfinite().all()
    again = views_of(name, x, mean=(0.4,) * shape[0], std=(0.2,) * shape[0])
    assert torch.equal(view, again)


@pytest.mark.parametrize("name", IMAGE_PERTURBATIONS)
def test_draws_for_the_batch_are_the_same_for_all_samples(name):
    x = torch.rand(1, 1, 16, 16).repeat(8, 1, 1, 1)
    batch = views_of(name, x, draws="batch")
    assert torch.allclose(batch, batch[:1].expand_as(batch), atol=1e-6)
    sample = views_of(name, x, draws="sample")
    assert not torch.allclose(sample, sample[:1].expand_as(sample), atol=1e-3)


@pytest.mark.parametrize(("name", "axis"), [("hflip", 3), ("vflip", 2)])
def test_flips_happen_to_half_of_the_samples(name, axis):
    x = torch.rand(400, 1, 8, 8)
    view = views_of(name, x)
    flipped = (view - x.flip(axis)).abs().amax((1, 2, 3)) < 1e-5
    same = (view - x).abs().amax((1, 2, 3)) < 1e-5
    assert (flipped ^ same).all()
    assert 160 < flipped.sum() < 240


def similarity(angle=0.0, scale=1.0, move=(0.0, 0.0), aspect=1.0):
    """The matrix of a turn that goes as far as it may; `move` is in coordinates from -1 to 1."""
    turn = Turn(np.degrees(angle), (move[0] / 2, move[1] / 2), (scale, scale))
    return torch.from_numpy(turn_matrices(np.ones((1, 1, 9), dtype=np.float32), [turn], aspect)[0])


def test_a_quarter_turn_is_exact_and_leads_counterclockwise():
    x = torch.rand(1, 1, 8, 8)
    turned = warp(x, similarity(angle=torch.pi / 2))
    either = [torch.rot90(x, k, (2, 3)) for k in (1, -1)]
    assert min((turned - other).abs().max() for other in either) < 1e-4


def test_a_shift_moves_right_and_down_and_a_scale_shrinks():
    x = square()
    row, column = centre(x[0])
    moved = warp(x, similarity(move=(0.5, 0.25)))  # of [-1, 1]
    assert centre(moved[0]) == pytest.approx((row + 2, column + 4), abs=0.05)
    small = warp(x, similarity(scale=0.5))
    assert small.sum().item() == pytest.approx(x.sum().item() / 4, rel=0.1)


@pytest.mark.parametrize(("name", "degrees"), [("rotate-10", 10), ("rotate-45", 45),
                                               ("rotate-90", 90)])  # fmt: skip
def test_rotations_keep_the_distance_to_the_centre_and_their_range(name, degrees):
    x = square(side=32, n=200)
    middle = torch.tensor([15.5, 15.5])
    start = torch.tensor(centre(x[0])) - middle
    angles = []
    for image in views_of(name, x):
        place = torch.tensor(centre(image)) - middle
        assert place.norm().item() == pytest.approx(start.norm().item(), abs=0.7)
        cross = start[0] * place[1] - start[1] * place[0]
        angles.append(torch.rad2deg(torch.atan2(cross, start @ place)).item())
    assert max(map(abs, angles)) < degrees + 3
    assert max(angles) > 0.8 * degrees
    assert min(angles) < -0.8 * degrees


def test_a_rotation_of_a_wide_image_keeps_shapes():
    x = torch.zeros(1, 1, 16, 32)
    x[:, :, 6:10, 14:18] = 1  # a square in the middle stays a square of the same mass
    turned = warp(x, similarity(angle=0.7, aspect=2.0))
    assert turned.sum().item() == pytest.approx(x.sum().item(), rel=0.05)


def test_affine_shrinks_to_between_a_quarter_and_nine_sixteenths():
    x = torch.zeros(300, 1, 32, 32)
    x[:, :, 12:20, 12:20] = 1
    mass = views_of("affine", x).sum((1, 2, 3)) / 64
    assert 0.24 < mass.min() < 0.28
    assert 0.52 < mass.max() < 0.58


def test_crop_enlarges_by_at_most_a_quarter():
    x = torch.zeros(300, 1, 32, 32)
    x[:, :, 14:18, 14:18] = 1
    mass = views_of("crop", x).sum((1, 2, 3)) / 16
    assert 0.98 < mass.min() < 1.05
    assert 1.18 < mass.max() < 1.28


def test_perspective_keeps_half_of_the_images_and_moves_corners_inwards():
    x = torch.ones(400, 1, 32, 32)
    view = views_of("perspective", x)
    same = (view == 1).all(-1).all(-1).all(-1)
    assert 160 < same.sum() < 240
    changed = view[~same]
    assert changed[:, 0, 0, 0].mean() < 0.2  # the corner is outside of the original now
    assert (changed[:, 0, 15:17, 15:17] > 0.99).all()  # the middle never is: at most a quarter
    assert changed.mean((1, 2, 3)).min() > 0.25


def test_cutout_fills_a_clipped_square_with_the_mean_colour():
    x = torch.full((300, 1, 32, 32), 0.9)
    for name, side in (("cutout-10", 10), ("cutout-20", 20)):
        view = views_of(name, x, mean=(0.25,), std=(1.0,), pixels="normalised")
        hole = (view == 0.25).sum((1, 2, 3))
        assert hole.max() == side * side
        assert hole.min() >= (side // 2) ** 2
        assert ((view == 0.25) | (view == 0.9)).all()


def test_brightness_and_invert_on_raw_and_on_normalised_pixels():
    raw = torch.rand(200, 1, 8, 8)
    mean, std = 0.5, 0.2
    x = (raw - mean) / std
    options = {"mean": (mean,), "std": (std,)}
    bright = views_of("brightness", x, **options) * std + mean
    factor = (bright / raw).amin((1, 2, 3))
    assert 0.9 <= factor.min() < 0.92
    assert bright.max() <= 1 + 1e-5
    inverted = views_of("invert", x, **options) * std + mean
    happened = (inverted - (1 - raw)).abs().amax((1, 2, 3)) < 1e-5
    assert 70 < happened.sum() < 130
    assert (inverted[~happened] - raw[~happened]).abs().max() < 1e-5
    # As released: on normalised pixels, so that what is below the mean is cut to 0.
    assert views_of("brightness", x, pixels="normalised", **options).min() == 0


def test_noise_has_the_given_standard_deviation():
    copies = NoisyCopies(0.1, 5)(torch.zeros(200, 50), generator(0, "noise"))
    assert copies.shape == (5, 200, 50)
    assert copies.std().item() == pytest.approx(0.1, rel=0.02)


def test_global_generators_are_untouched():
    images, before = torch.rand(2, 1, 8, 8), torch.get_rng_state()
    ImageViews(**PLAIN)(images, generator(0, "x"))
    NoisyCopies()(images.flatten(1), generator(0, "x"))
    assert torch.equal(torch.get_rng_state(), before)
