import torch

from ofcl.storage.image_grid import grid


def test_pictures_of_any_number_of_channels():
    for channels in (1, 2, 3, 4):
        assert grid({"a": torch.rand(2, channels, 8, 8), "b": torch.rand(0, channels, 8, 8)})
