"""Datasets that do not fit together are refused."""

import pytest
import torch

from ofcl import Dataset, OfclError


def test_inconsistent_data_is_refused():
    x, y = torch.zeros(4, 2), torch.tensor([0, 1, 2, 0])
    with pytest.raises(OfclError, match="labels from 0 to 2, but there are 2 names"):
        Dataset("d", "vector", x, y, x, y, ("a", "b"))
    with pytest.raises(OfclError, match="4 train samples but 3 labels"):
        Dataset("d", "vector", x, y[:3], x, y, ("a", "b", "c"))
    with pytest.raises(OfclError, match="image samples need 4 dimensions"):
        Dataset("d", "image", x, y, x, y, ("a", "b", "c"))
