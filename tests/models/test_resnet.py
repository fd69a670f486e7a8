import os
import subprocess
import sys
import tempfile

import pytest
import torch

from ofcl.models import SlimResNet18


@pytest.mark.parametrize("side", [8, 9, 28, 32, 64])
@pytest.mark.parametrize(("channels", "width"), [(1, 4), (3, 7)])
def test_resnet_takes_any_side_channels_and_width(side, channels, width):
    model = SlimResNet18(channels, 5, width)
    assert model(torch.randn(2, channels, side, side)).shape == (2, 5)
    assert model.head.in_features == 8 * width


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
