import math

import pytest
import torch
import torch.nn.functional as F

from ofcl.methods.generative import (
    fedcil_losses,
)
from tests.support.generative import make_gan


def test_the_critic_s_verdicts():
    real = torch.tensor([[0.0], [math.log(3)]])
    assert fedcil_losses.verdict_loss(real, True).item() == pytest.approx(
        -(math.log(0.5) + math.log(0.75)) / 2
    )
    assert fedcil_losses.verdict_loss(real, False).item() == pytest.approx(
        -(math.log(0.5) + math.log(0.25)) / 2
    )


def test_critic_and_generator_loss_are_the_sums_of_their_terms():
    gan, x, y = make_gan(), torch.randn(3, 1, 8, 8), torch.tensor([0, 1, 2])
    made, made_y = torch.randn(3, 1, 8, 8), torch.tensor([3, 3, 0])

    def verdict(images):
        return torch.sigmoid(gan.real(gan.features(images)))

    classes = F.cross_entropy(gan(x), y) + F.cross_entropy(gan(made), made_y)
    judged = -verdict(x).log().mean() - (1 - verdict(made)).log().mean()
    loss, logits, made_logits = fedcil_losses.critic_loss(gan, x, y, made, made_y)
    assert torch.allclose(logits, gan(x))
    assert torch.allclose(made_logits, gan(made))
    assert loss.item() == pytest.approx((classes + judged).item(), rel=1e-4)
    deceived = -verdict(made).log().mean() + F.cross_entropy(gan(made), made_y)
    found = fedcil_losses.generator_loss(gan, made, made_y)
    assert found.item() == pytest.approx(deceived.item(), rel=1e-4)


def test_the_critic_s_loss_does_not_move_the_generator():
    gan = make_gan()
    noise = torch.randn(3, 104)
    made = gan.make(noise, torch.tensor([0, 1, 2]))
    y = torch.tensor([0, 1, 2])
    loss, _, _ = fedcil_losses.critic_loss(gan, torch.randn(3, 1, 8, 8), y, made, y)
    loss.backward()
    assert all(p.grad is None for p in gan.generator.parameters())
    assert gan.head.weight.grad is not None


def test_divergence():
    target, logits = torch.tensor([[0.0, math.log(3)]]), torch.zeros(1, 2)
    logits.requires_grad_()
    target.requires_grad_()
    loss = fedcil_losses.divergence(target, logits)
    assert loss.item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    loss.backward()
    assert target.grad is None  # it is what the other shall come to
