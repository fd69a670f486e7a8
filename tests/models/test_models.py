import torch

from ofcl.models import MODELS, ModelSize


def test_models_by_name():
    assert MODELS["mlp"].build(ModelSize((1, 8, 8), 3))(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    resnet = MODELS["slim-resnet18"].build(ModelSize((3, 32, 32), 10))
    convolutions = [m for m in resnet.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 20  # a stem, sixteen in blocks, three on the way around
    assert {c.out_channels for c in convolutions} == {20, 40, 80, 160}
