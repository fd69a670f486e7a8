import pytest
import torch

from ofcl.models import MODELS, ModelSize, SlimResNet18


@pytest.mark.parametrize("side", [8, 9, 28, 32, 64])
@pytest.mark.parametrize(("channels", "width"), [(1, 4), (3, 7)])
def test_resnet_takes_any_side_channels_and_width(side, channels, width):
    model = SlimResNet18(channels, 5, width)
    assert model(torch.randn(2, channels, side, side)).shape == (2, 5)
    assert model.head.in_features == 8 * width


def test_models_by_name():
    assert MODELS["mlp"](ModelSize((1, 8, 8), 3))(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    resnet = MODELS["slim-resnet18"](ModelSize((3, 32, 32), 10))
    convolutions = [m for m in resnet.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 20  # a stem, sixteen in blocks, three on the way around
    assert {c.out_channels for c in convolutions} == {20, 40, 80, 160}
