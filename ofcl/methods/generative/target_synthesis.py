"""TARGET (Zhang et al. 2023): how the server makes synthetic images from the global model.

Lots of images are made one after the other. For each, a copy of the generator and the noise it
starts from take a few steps on `image_loss`, and the images of the smallest loss are kept. The
generator itself then takes one step with the sum of the copy's gradients (first-order MAML), so
that the next lot starts from a better one. After the first lots, a student learns from all images
so far, and images are wanted that it does not know.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ofcl.methods.generative.batchnorm_inputs import watched_inputs
from ofcl.methods.generative.target_losses import Statistics, averaged, image_loss, student_loss
from ofcl.models.generators import NOISE, ImageGenerator

STEPS = 10  # for each lot
LR, NOISE_LR, BETAS = 0.002, 0.01, (0.5, 0.999)  # of Adam
STUDENT_LR, STUDENT_MOMENTUM, STUDENT_DECAY = 0.2, 0.9, 1e-4  # of SGD
ALONE = 0.1  # the share of the lots that are made before the student learns


@dataclass
class Synthesis:
    """Makes synthetic images of the classes seen so far, lot by lot.

    Args:
        teacher: The frozen global model, in evaluation mode.
        student: A network like it that has learned nothing.
        images: The generator of images, which learns.
        seen: The classes seen so far, on the models' device.
        random: The random generator of noise, classes and lots.
        lot: Images in a lot.
        steps: Steps of the generator's copy for each lot, and of the student after it.
        made: The lots so far.
    """

    teacher: nn.Module
    student: nn.Module
    images: ImageGenerator
    seen: Tensor
    random: torch.Generator
    lot: int = 128
    steps: int = STEPS
    made: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._earlier: Statistics = []
        self._optimizer = torch.optim.Adam(self.images.parameters(), LR * self.steps, betas=BETAS)
        self._student_optimizer = torch.optim.SGD(
            self.student.parameters(),
            STUDENT_LR,
            momentum=STUDENT_MOMENTUM,
            weight_decay=STUDENT_DECAY,
        )

    @torch.enable_grad()
    def make(self, lots: int) -> Tensor:
        """Makes lots of images, and lets the student learn from them.

        Args:
            lots: The number of lots.

        Returns:
            The normalised images (lots · lot, C, H, W).
        """
        alone = max(round(ALONE * lots), 1)
        for number in range(lots):
            self.made.append(self._lot(with_student=number > alone))
            if alone <= number < lots - 1:
                self._teach_student()
        return torch.cat(self.made)

    def _lot(self, *, with_student: bool) -> Tensor:
        """Makes one lot of images, and lets the generator take its step.

        Args:
            with_student: Whether images are wanted that the student does not know.
        """
        device = self.seen.device
        noise = torch.randn(self.lot, NOISE, generator=self.random).to(device).requires_grad_()
        labels = torch.randint(len(self.seen), (self.lot,), generator=self.random).to(device)
        fast = copy.deepcopy(self.images).train()
        groups: list[dict[str, Any]] = [
            {"params": list(fast.parameters())},
            {"params": [noise], "lr": NOISE_LR},
        ]
        optimizer = torch.optim.Adam(groups, lr=LR, betas=BETAS)
        sums = [torch.zeros_like(parameter) for parameter in fast.parameters()]
        best, least, statistics = torch.empty(0), float("inf"), self._earlier
        self.student.eval()
        for _ in range(self.steps):
            images = fast(noise)
            with watched_inputs(self.teacher) as inputs:
                logits = self.teacher(images)[:, self.seen]
            unknown = self.student(images)[:, self.seen] if with_student else None
            loss = image_loss(logits, labels, inputs, self._earlier, unknown)
            if not len(best) or loss.item() < least:
                best, least = images.detach(), loss.item()
            statistics = averaged(inputs, self._earlier)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            for total, parameter in zip(sums, fast.parameters(), strict=True):
                assert parameter.grad is not None
                total += parameter.grad
            optimizer.step()
        self._earlier = statistics
        for parameter, total in zip(self.images.parameters(), sums, strict=True):
            parameter.grad = total
        self._optimizer.step()
        return best

    def _teach_student(self) -> None:
        """Lets the student learn from the images so far to predict as the teacher does."""
        self.student.train()
        pool = torch.cat(self.made)
        for _ in range(self.steps):
            rows = torch.randint(len(pool), (self.lot,), generator=self.random)
            images = pool[rows.to(pool.device)]
            with torch.no_grad():
                wanted = self.teacher(images)[:, self.seen]
            loss = student_loss(self.student(images)[:, self.seen], wanted)
            self._student_optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._student_optimizer.step()
