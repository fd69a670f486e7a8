"""FedCBDR (Qi et al. 2025): the loss with a temperature for old and one for new classes.

Old classes have few samples, those of the memory, and new ones many. So logits z_c are divided by
τ_old < 1 for old classes and by τ_new > 1 for the classes of the task. With CE the cross-entropy of
these, the loss is

    ω_old · mean of CE over samples of old classes + ω_new · mean of CE over samples of new ones

A step without samples of old classes, as in the first task, has plain cross-entropy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.methods.losses import cross_entropy


@dataclass(frozen=True)
class TaskAwareTemperature:
    """FedCBDR's loss (a `methods.losses.Loss`).

    >>> loss = TaskAwareTemperature(tau_old=1.0, tau_new=1.0, omega_old=2.0, omega_new=1.0)
    >>> logits, y = torch.zeros(3, 4), torch.tensor([0, 3, 3])
    >>> loss(logits, y, 1, torch.tensor([True, False, False, False])).item()  # 3 ln 4
    4.158...

    Args:
        tau_old: The temperature τ_old of old classes' logits.
        tau_new: The temperature τ_new of the logits of the task's classes.
        omega_old: The weight ω_old of samples of old classes.
        omega_new: The weight ω_new of samples of the task's classes.
    """

    tau_old: float = 0.9
    tau_new: float = 1.1
    omega_old: float = 1.1
    omega_new: float = 0.9

    def __call__(self, logits: Tensor, y: Tensor, new: int, current: Tensor) -> Tensor:
        """Computes the loss of a step, with the leading dimensions (…) of the logits.

        Args:
            logits: The logits (…, n, classes).
            y: The classes of the samples (…, n).
            new: Not used: a replayed sample may be of a class of the task.
            current: Whether each class is one of the task (…, classes).
        """
        among_task = current.expand(*y.shape[:-1], current.shape[-1])
        of_task = among_task.gather(-1, y)  # (…, n)
        scale = torch.where(among_task, 1 / self.tau_new, 1 / self.tau_old).to(logits)
        scaled = logits * scale.unsqueeze(-2)
        each = F.cross_entropy(scaled.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)
        old = self.omega_old * _mean(each, ~of_task) + self.omega_new * _mean(each, of_task)
        return torch.where(of_task.all(-1), cross_entropy(logits, y, new, current), old)


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """Computes the mean over chosen values along the last dimension; 0 where none is chosen.

    Args:
        values: The values (…, n).
        chosen: Which of them count (…, n).
    """
    return (values * chosen).sum(-1) / chosen.sum(-1).clamp_min(1)
