"""Codecs: numbers worked out by hand, and what cannot have come from them is refused."""

import pytest
import torch

from ofcl.compression.codecs import Half, Integers, TopK, find_codec
from ofcl.errors import OfclError

INT8 = Integers(8)
VALUES = {"a": torch.tensor([[1.0, -0.5], [0.25, 0.001]]), "b": torch.tensor([-4.0, 3.0, 0.0])}
CODECS = [Half(), INT8, Integers(4), TopK(0.4)]


def test_int8_has_a_scale_for_each_tensor():
    coded = INT8.encode(VALUES)
    assert coded["b.scale"].item() == pytest.approx(4 / 127)
    assert coded["b"].tolist() == [-127, 95, 0]  # 3 / (4 / 127) = 95.25
    assert coded["a"].tolist() == [[127, -64], [32, 0]]  # -63.5 rounds to even
    decoded = INT8.decode(coded, VALUES)
    assert decoded["b"].tolist() == pytest.approx([-4, 95 * 4 / 127, 0])


def test_int4_puts_two_numbers_into_a_byte():
    coded = Integers(4).encode(VALUES)
    assert coded["b"].tolist() == [1 | 13 << 4, 8]  # -7, 5, 0, each 8 more; then nothing
    assert Integers(4).decode(coded, VALUES)["b"].tolist() == pytest.approx([-4, 20 / 7, 0])


def test_top_k_takes_the_largest_of_all_tensors():
    coded = TopK(0.4).encode(VALUES)  # three of seven
    assert coded["topk.values"].tolist() == [1.0, -4.0, 3.0]
    assert coded["topk.mask"].tolist() == [0b110001]
    decoded = TopK(0.4).decode(coded, VALUES)
    assert decoded["a"].tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert decoded["b"].tolist() == [-4.0, 3.0, 0.0]


def test_half_precision_stays_finite():
    coded = Half().encode({"a": torch.tensor([1e9, -1e9, 0.1])})
    assert coded["a"].dtype == torch.float16
    assert coded["a"].isfinite().all()
    assert Half().decode(coded, {"a": torch.zeros(3)})["a"][2].item() == pytest.approx(0.1, 1e-3)


def test_zeros_stay_zeros():
    zeros = {"a": torch.zeros(5)}
    for codec in CODECS:
        assert codec.decode(codec.encode(zeros), zeros)["a"].tolist() == [0.0] * 5


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_tensors_of_another_type_shape_or_name_are_refused(codec):
    coded = codec.encode(VALUES)
    for name in coded:
        for wrong in (coded[name].double(), torch.cat([coded[name].flatten()] * 2)):
            with pytest.raises(ValueError, match="expected|came"):
                codec.decode({**coded, name: wrong}, VALUES)
        with pytest.raises(ValueError, match="do not fit"):
            codec.decode({n: value for n, value in coded.items() if n != name}, VALUES)
    with pytest.raises(ValueError, match="do not fit"):
        codec.decode({**coded, "more": torch.zeros(1)}, VALUES)


def test_more_numbers_than_the_share_are_refused():
    with pytest.raises(ValueError, match="7 of 7"):
        TopK(0.4).decode(TopK(1.0).encode(VALUES), VALUES)


@pytest.mark.parametrize("name", ["int2", "topk", "topk:0", "topk:2", "topk:x"])
def test_an_unknown_codec_is_named(name):
    with pytest.raises(OfclError, match="expected one of none, fp16, int8, int4, topk"):
        find_codec(name)
