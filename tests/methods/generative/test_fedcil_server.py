import pytest
import torch

from ofcl.methods.generative import (
    fedcil_server,
)


def test_the_server_draws_every_class_equally_often():
    labels = torch.tensor([0] * 90 + [1] * 10)
    pool = fedcil_server.Pool(labels.float(), labels)
    random = torch.Generator().manual_seed(0)
    drawn = torch.cat([pool.draw(random)[1] for _ in range(100)])
    assert drawn.float().mean().item() == pytest.approx(0.5, abs=0.03)
