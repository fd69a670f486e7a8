import math

import pytest
import torch
from torch import nn

from ofcl.methods.generative import (
    mfcl_losses,
)
from ofcl.methods.generative.batchnorm_inputs import watched_inputs


def entropy_of(*p):
    return sum(v * math.log(v) for v in p)


def test_label_loss_is_cross_entropy_at_a_temperature():
    logits, labels = torch.tensor([[2000.0, 0.0]]), torch.tensor([0])
    assert mfcl_losses.label_loss(logits, labels).item() == pytest.approx(
        math.log(1 + math.exp(-2))
    )
    assert mfcl_losses.label_loss(logits, labels, 2000).item() == pytest.approx(
        math.log(1 + math.exp(-1))
    )


def test_balance_loss_is_what_is_missing_to_the_largest_entropy():
    one_sided = torch.tensor([[0.0, math.log(3)]])  # softmax ¼, ¾
    expected = 1 + entropy_of(0.25, 0.75) / math.log(2)
    assert mfcl_losses.balance_loss(one_sided).item() == pytest.approx(expected)
    assert mfcl_losses.balance_loss(torch.tensor([[0.0, 9.0], [9.0, 0.0]])).item() == pytest.approx(
        0
    )


def test_statistics_loss():
    mean, variance = torch.tensor([1.0]), torch.tensor([4.0])
    running = torch.tensor([0.0]), torch.tensor([1.0])
    # ln(2 / 1) − ½ (1 − (1 + 1) / 4)
    expected = math.log(2) - 0.5 * (1 - 0.5)
    assert mfcl_losses.statistics_loss(mean, variance, *running).item() == pytest.approx(expected)
    assert mfcl_losses.statistics_loss(*running, *running).item() == pytest.approx(0)


def test_the_statistics_are_those_of_each_layer_s_input_and_hooks_go_away():
    layer = nn.BatchNorm2d(2).eval()
    layer.running_mean, layer.running_var = torch.tensor([0.5, 0.0]), torch.tensor([2.0, 1.0])
    x = torch.randn(6, 2, 3, 3)
    with watched_inputs(layer) as inputs:
        layer(x)
    flat = x.transpose(0, 1).flatten(1)
    mean, variance = flat.mean(1), flat.var(1, correction=0)
    expected = mfcl_losses.statistics_loss(mean, variance, layer.running_mean, layer.running_var)
    loss = mfcl_losses.statistics_loss(*inputs[0])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    layer(x)
    assert len(inputs) == 1


def test_smoothness_loss_of_one_bright_pixel():
    image = torch.zeros(1, 2, 9, 9)
    image[0, :, 4, 4] = 1
    bell = [math.exp(-((d / 2) ** 2)) for d in range(-2, 3)]
    total = sum(bell) ** 2
    kernel = [[a * b / total for b in bell] for a in bell]
    squares = sum((float(i == j == 2) - kernel[i][j]) ** 2 for i in range(5) for j in range(5))
    assert mfcl_losses.smoothness_loss(image).item() == pytest.approx(squares / 81, rel=1e-5)
    assert mfcl_losses.smoothness_loss(torch.ones(1, 3, 8, 8)).item() == pytest.approx(0, abs=1e-10)


def test_distillation_loss():
    head = nn.Linear(2, 3)
    head.weight.data = torch.tensor([[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]])
    new, before = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.zeros(2, 2)
    # of the old classes 0 and 1 the first sample moves by (1, 2): 5 / 2 classes, mean over two
    loss = mfcl_losses.distillation_loss(head, torch.tensor([0, 1]), new, before)
    assert loss.item() == pytest.approx(1.25)
