"""TARGET's losses, worked out by hand."""

import math

import pytest
import torch

from ofcl.methods.generative import target_losses
from ofcl.methods.generative.batchnorm_inputs import LayerInput
from ofcl.methods.generative.target_losses import adversary_loss, averaged, image_loss

LAYER = LayerInput(
    torch.tensor([1.0, 0.0]), torch.tensor([2.0, 1.0]), torch.zeros(2), torch.tensor([2.0, 4.0])
)


def test_the_distance_of_statistics():
    # ‖(2, 4) − (2, 1)‖ + ‖0 − (1, 0)‖ = 3 + 1, for each of two layers
    assert target_losses.statistics_distance([LAYER, LAYER], []).item() == pytest.approx(8)
    # With earlier images: 0.1 · (2, 1) + 0.9 · (2, 4) = (2, 3.7); 0.1 · (1, 0) + 0.9 · 0
    earlier = [(torch.zeros(2), torch.tensor([2.0, 4.0]))]
    assert target_losses.statistics_distance([LAYER], earlier).item() == pytest.approx(0.4)


def test_statistics_of_earlier_images_are_averaged():
    first = averaged([LAYER], [])
    assert [v.tolist() for v in first[0]] == [[1, 0], [2, 1]]
    mean, variance = averaged([LAYER], [(torch.zeros(2), torch.zeros(2))])[0]
    assert mean.tolist() == pytest.approx([0.1, 0])
    assert variance.tolist() == pytest.approx([0.2, 0.1])


def test_the_adversary_counts_where_both_see_the_same_class():
    teacher = torch.tensor([[0.8, 0.2], [0.8, 0.2]]).log()
    student = torch.tensor([[0.6, 0.4], [0.4, 0.6]]).log()
    divergence = 0.8 * math.log(0.8 / 0.6) + 0.2 * math.log(0.2 / 0.4)
    assert adversary_loss(student, teacher).item() == pytest.approx(-divergence / 2, rel=1e-5)


def test_the_loss_of_an_image_is_the_weighted_sum():
    teacher = torch.tensor([[0.8, 0.2]]).log()
    student, label = torch.tensor([[0.6, 0.4]]).log(), torch.tensor([1])
    divergence = 0.8 * math.log(0.8 / 0.6) + 0.2 * math.log(0.2 / 0.4)
    of_label = 0.5 * -math.log(0.2)
    assert image_loss(teacher, label, [], [], None).item() == pytest.approx(of_label, rel=1e-5)
    whole = image_loss(teacher, label, [LAYER], [], student).item()
    assert whole == pytest.approx(of_label + 10 * 4 - divergence, rel=1e-5)


def test_the_student_learns_at_a_temperature_of_20():
    # 20² · KL of softmax(z / 20): both differences of logits are divided by 20
    teacher, student = torch.tensor([[20 * math.log(4.0), 0.0]]), torch.zeros(1, 2)
    expected = 400 * (0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5))
    assert target_losses.student_loss(student, teacher).item() == pytest.approx(expected, rel=1e-5)


def test_a_client_s_distillation_at_a_temperature_of_2():
    taught = torch.tensor([[2 * math.log(4.0), 0.0], [0.0, 0.0]])
    logits = torch.tensor([[2 * math.log(3.0), 0.0], [0.0, 0.0]])
    first = -0.8 * math.log(0.75) - 0.2 * math.log(0.25)
    expected = (first + math.log(2)) / 2
    assert target_losses.distillation_loss(logits, taught).item() == pytest.approx(
        expected, rel=1e-5
    )
