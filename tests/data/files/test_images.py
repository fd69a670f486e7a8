"""Image files: sizes, depths and orientations."""

import numpy as np
import pytest
from PIL import Image

from ofcl import OfclError
from tests.support.own_images import paint


def test_images_of_different_sizes_need_one(tmp_path, read):
    paint(tmp_path / "i" / "a" / "0.png", 10, (3, 5))
    paint(tmp_path / "i" / "b" / "0.png", 20, (8, 2))
    with pytest.raises(OfclError, match=r"a/0.png' is 3 × 5, .*b/0.png' 8 × 2; .*--image-size"):
        read(tmp_path / "i")
    data = read(tmp_path / "i", image_size=6)
    assert data.x_train.shape == (2, 1, 6, 6)
    assert data.x_train[:, 0, 5, 5].tolist() == [10, 20]


@pytest.mark.parametrize(
    ("values", "read_as"),
    [((200, 300), (12, 18)), ((100, 200), (100, 200)), ((4095, 0), (255, 0))],
)
def test_16_bits_are_brought_to_8_alike(tmp_path, read, values, read_as):
    """One dark image among others is not taken for one of 8 bits."""
    for name, value in zip("ab", values, strict=True):
        (tmp_path / "i" / name).mkdir(parents=True)
        Image.fromarray(np.full((2, 2), value, np.uint16)).save(tmp_path / "i" / name / "0.png")
    assert read(tmp_path / "i").x_train[:, 0, 0, 0].tolist() == list(read_as)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_a_photo_is_turned_as_its_exif_data_say(tmp_path, read, suffix):
    pixels = np.zeros((2, 4), np.uint8)
    pixels[:, 2:] = 255  # bright on the right; turned by a quarter, at the bottom
    for name in "ab":
        (tmp_path / "i" / name).mkdir(parents=True)
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(pixels).save(tmp_path / "i" / name / f"0.{suffix}", exif=exif)
    data = read(tmp_path / "i")
    assert data.shape == (1, 4, 2)
    assert (data.x_train[0, 0] > 128).tolist() == [[False] * 2] * 2 + [[True] * 2] * 2
