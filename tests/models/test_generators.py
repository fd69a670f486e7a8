import pytest
import torch

from ofcl.models.generators import ACGAN, Critic


def test_images_are_padded_and_cut_in_black():
    gan = ACGAN((1, 28, 28), 2, mean=(0.5,), std=(0.25,), channels=1)
    padded = gan._padded(torch.ones(1, 1, 28, 28))
    assert padded.shape == (1, 1, 32, 32)
    assert padded[0, 0, 0, 0].item() == pytest.approx(-2)  # black: (0 − 0.5) / 0.25
    assert padded[0, 0, 2:30, 2:30].unique().tolist() == [1.0]
    made = gan.make(torch.randn(2, 102), torch.tensor([0, 1]))
    assert made.shape == (2, 1, 28, 28)
    assert made.min() >= -2
    assert made.max() <= 2


def test_dropout_draws_from_nobody_else_s_generator():
    critic = Critic(1, 1).train()
    x, state = torch.randn(4, 1, 32, 32), torch.get_rng_state()
    found = []
    for seed in (1, 1, 2):
        critic.dropout.seed(seed)
        found.append(critic(x))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert torch.equal(torch.get_rng_state(), state)
    dropped = torch.nn.functional.relu(critic.dropout(torch.ones(10_000)))
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)
    assert sorted(dropped.unique().tolist()) == [0, 2]
