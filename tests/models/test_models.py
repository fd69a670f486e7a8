import os
import subprocess
import sys
import tempfile

import pytest
import torch

from ofcl.models import MODELS, ModelSize, SlimResNet18
from ofcl.models.norm import in_parts


@pytest.mark.parametrize("side", [8, 9, 28, 32, 64])
@pytest.mark.parametrize(("channels", "width"), [(1, 4), (3, 7)])
def test_resnet_takes_any_side_channels_and_width(side, channels, width):
    model = SlimResNet18(channels, 5, width)
    assert model(torch.randn(2, channels, side, side)).shape == (2, 5)
    assert model.head.in_features == 8 * width


def test_models_by_name():
    assert MODELS["mlp"].build(ModelSize((1, 8, 8), 3))(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    resnet = MODELS["slim-resnet18"].build(ModelSize((3, 32, 32), 10))
    convolutions = [m for m in resnet.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 20  # a stem, sixteen in blocks, three on the way around
    assert {c.out_channels for c in convolutions} == {20, 40, 80, 160}


def test_narrow_networks_learn_on_two_threads_and_odd_batches():
    """A strided 1 × 1 convolution of few channels, last, brought the process down here."""
    command = [sys.executable, "-m", "ofcl.cli.main", "run", "demo", "--method", "er", "--memory",
               "10", "--limit", "3", "--clients", "2", "--tasks", "2", "--set", "batch_size=5",
               "-q"]  # fmt: skip
    for threads in ("2", "3"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True,
                                  text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("n", [1, 5])
def test_parts_of_a_batch_are_normalised_as_if_each_came_alone(parts, n):
    torch.manual_seed(0)
    model = SlimResNet18(3, 4, width=2).to(memory_format=torch.channels_last).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    x = torch.randn(parts, n, 3, 16, 16)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.no_grad(), in_parts(model, parts):
        together = model(x.flatten(0, 1)).unflatten(0, (parts, n))
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name])
    with torch.no_grad():
        alone = torch.stack([model(part) for part in x])
    assert torch.allclose(together, alone, atol=1e-5)
    changed = [not torch.equal(buffer, before[name]) for name, buffer in model.named_buffers()]
    assert any(changed)  # by the forwards without parts
