"""TARGET at a client and at the server: the loss, the images, what is refused."""

import math

import pytest
import torch
from torch import nn

import ofcl
from ofcl.errors import OfclError
from ofcl.methods.generative.target_client import TARGETLesson
from ofcl.methods.generative.target_server import TARGETServer, normalised
from ofcl.methods.generative.target_synthesis import Synthesis
from ofcl.models.generators import ImageGenerator
from ofcl.testing import TINY, TINY_IMAGES, make_blobs, make_images
from ofcl.update import Update


class Mean(nn.Module):
    """A head on the mean of an image."""

    def __init__(self, classes=3):
        super().__init__()
        self.head = nn.Linear(1, classes)

    def features(self, x):
        return x.mean((1, 2, 3))[:, None]

    def forward(self, x):
        return self.head(self.features(x))


def test_a_client_s_loss():
    model = Mean()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    lesson = TARGETLesson(model, torch.Generator().manual_seed(0), synthetic=2)
    x, y = torch.zeros(2, 1, 4, 4), torch.tensor([2, 2])
    first, _ = lesson.loss(model, x, y, [0, 2])
    assert first.item() == pytest.approx(math.log(2))  # the third class is not of the task
    teacher = {
        "head.weight": torch.zeros(3, 1),
        "head.bias": torch.tensor([2 * math.log(3.0), 0, 9]),
    }
    lesson.receives(
        teacher,
        {
            "images": torch.zeros(5, 1, 4, 4, dtype=torch.uint8),
            "old": torch.tensor([0, 1]),
        },
    )
    loss, _ = lesson.loss(model, x, y, [2])
    # Among the one class of the task, nothing is to be told; of the old ones the teacher says ¾, ¼,
    # and the client ½, ½.
    assert loss.item() == pytest.approx(25 * math.log(2), rel=1e-5)


def test_bytes_are_normalised_as_samples_are():
    pixels = torch.tensor([0, 255], dtype=torch.uint8).view(1, 2, 1, 1)
    assert normalised(pixels, (0.5, 0.25), (0.5, 0.25)).flatten().tolist() == [-1, 3]


def test_images_come_to_be_of_the_wanted_classes_and_the_teacher_stays_as_it_is():
    torch.manual_seed(0)
    teacher = nn.Sequential(
        nn.Conv2d(1, 4, 4, 4), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3)
    )
    teacher.eval().requires_grad_(False)
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    images = ImageGenerator((1, 8, 8), channels=4)
    seen = torch.tensor([0, 2])
    synthesis = Synthesis(
        teacher, student, images, seen, torch.Generator().manual_seed(1), lot=16, steps=5
    )
    start = [p.detach().clone() for p in student.parameters()]
    made = synthesis.make(4)
    assert made.shape == (64, 1, 8, 8)
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())
    assert any(not torch.equal(p, q) for p, q in zip(student.parameters(), start, strict=True))
    assert len(synthesis._earlier) == 1


def test_the_server_hands_out_images_of_the_classes_it_was_told():
    torch.manual_seed(0)
    model = Mean()
    server = TARGETServer(
        model=model,
        image_generator=ImageGenerator((1, 8, 8), channels=4),
        generator=torch.Generator().manual_seed(0),
        steps=3,
        lot=6,
    )
    assert server.end_task(model.state_dict())["images"].shape == (0,)
    assert server.pictures(2) == {}
    told = [Update(k, {}, 1, {}, {"now": torch.tensor([c])}) for k, c in enumerate((2, 0))]
    assert server.after_round({}, told) == {}
    handed = server.end_task(model.state_dict())
    assert handed["old"].tolist() == [0, 2]
    assert handed["images"].shape == (6, 1, 8, 8)
    assert handed["images"].dtype == torch.uint8
    assert sum(len(images) for images in server.pictures(9).values()) == 6


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"dp_clip": 1.0}, "without noise"),
        ({"batchnorm": "local"}, "averaged BatchNorm"),
        ({"stagger": 2}, "stagger"),
        ({"loss": "ace"}, "loss is for methods with a memory"),
    ],
)
def test_what_target_refuses(values, why):
    with pytest.raises(OfclError, match=why):
        ofcl.run(make_images(train=4), **{**TINY_IMAGES, "method": "target", **values})


def test_target_refuses_vectors():
    with pytest.raises(OfclError, match="target makes images"):
        ofcl.run(make_blobs(train=4), **{**TINY, "method": "target"})
