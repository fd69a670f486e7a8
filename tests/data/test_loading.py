"""Loading by name."""

import pytest

from ofcl import OfclError, load_dataset


def test_unknown_dataset():
    with pytest.raises(OfclError, match="Did you mean 'fashion-mini'"):
        load_dataset("fashionmini")
