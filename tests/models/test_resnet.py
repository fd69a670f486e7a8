import functools

import pytest
import torch
from torch import nn

from ofcl.models import SlimResNet18
from ofcl.models.resnet import PointConvolution
from tests.support import few_rows
from tests.support.commands import in_one_process, ofcl


@pytest.mark.parametrize("side", [8, 9, 28, 32, 64])
@pytest.mark.parametrize(("channels", "width"), [(1, 4), (3, 7)])
def test_resnet_takes_any_side_channels_and_width(side, channels, width):
    model = SlimResNet18(channels, 5, width)
    assert model(torch.randn(2, channels, side, side)).shape == (2, 5)
    assert model.head.in_features == 8 * width


def test_a_point_convolution_is_the_strided_one_that_a_gpu_computes():
    convolution, x = PointConvolution(3, 5, 1, stride=2, bias=False), torch.randn(2, 3, 9, 8)
    assert convolution(x).shape == (2, 5, 5, 4)
    assert torch.allclose(convolution(x), nn.Conv2d.forward(convolution, x), atol=1e-6)


def few_rows_on(threads):
    few_rows.every(7)
    torch.set_num_threads(threads)


@in_one_process
@pytest.mark.parametrize("threads", [2, 3])
def test_narrow_networks_learn_on_several_threads_and_odd_batches(tmp_path, threads):
    """A strided 1 × 1 convolution of few channels, last, brought the process down here."""
    command = ["run", "demo", "--method", "er", "--memory", 10, "--limit", 3, "--clients", 2,
               "--tasks", 2, "--set", "batch_size=5", "-q"]  # fmt: skip
    code, _, err = ofcl(*command, cwd=tmp_path, prepare=functools.partial(few_rows_on, threads))
    assert code == 0, err
