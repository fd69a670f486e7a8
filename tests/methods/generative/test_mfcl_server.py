import torch
import torch.nn.functional as F
from torch import nn

from ofcl.methods.generative import (
    mfcl_server,
)
from ofcl.models.generators import ImageGenerator


def test_the_generator_lowers_its_loss_by_half_in_a_hundred_steps():
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
                            nn.Flatten(), nn.Linear(6 * 64, 4))  # fmt: skip
    for _ in range(30):  # smooth images of mean 0 and deviation 1, as normalised ones are
        x = F.interpolate(torch.randn(64, 1, 2, 2), size=8, mode="bilinear")
        teacher((x - x.mean()) / x.std())
    server = mfcl_server.MFCLServer(
        model=teacher, image_generator=ImageGenerator((1, 8, 8), channels=16),
        generator=torch.Generator().manual_seed(0), steps=100, batch=32,
    )  # fmt: skip
    server._seen = [0, 1]  # the label term is never below ln 2 at its temperature
    losses = server.train()
    assert len(losses) == 100
    assert sum(losses[-5:]) / 5 < losses[0] / 2
