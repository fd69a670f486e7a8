"""The losses of a client: cross-entropy, its asymmetric form, contrastive and proximal terms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.own_parts.lookup import find_part, required_parameters, takes

Loss = Callable[[Tensor, Tensor, int, Tensor], Tensor]
"""Logits (…, n, classes), classes (…, n), how many samples are new, whether each class is one of
the task (…, classes) → the mean over the n. The leading dimension is that of stacked clients."""


def members(classes: Sequence[int], of: int) -> Tensor:
    """Returns a mask of all classes (of,) that is true for the given ones.

    >>> members([0, 2], of=3)
    tensor([ True, False,  True])

    Args:
        classes: The classes for which the mask is true.
        of: How many classes there are in all.
    """
    mask = torch.zeros(of, dtype=torch.bool)
    mask[torch.tensor(classes, dtype=torch.long)] = True
    return mask


def among(logits: Tensor, these: Tensor) -> Tensor:
    """Restricts logits to some classes: a softmax gives the others a probability of zero.

    >>> among(torch.zeros(1, 3), members([0, 2], of=3)).softmax(1)
    tensor([[0.5000, 0.0000, 0.5000]])

    Args:
        logits: The logits (…, n, classes).
        these: A mask (…, classes), true for the classes that remain.
    """
    return logits.masked_fill(~these.unsqueeze(-2), float("-inf"))


def cross_entropy(logits: Tensor, y: Tensor, new: int, current: Tensor) -> Tensor:
    """Computes the cross-entropy among all classes, as a mean over the n samples.

    Args:
        logits: The logits (…, n, classes).
        y: The classes of the samples (…, n).
        new: Not used; every `Loss` takes it.
        current: Not used; every `Loss` takes it.
    """
    each = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none")
    return each.view(y.shape).mean(-1)


def asymmetric_cross_entropy(logits: Tensor, y: Tensor, new: int, current: Tensor) -> Tensor:
    """Computes ER-ACE (Caccia et al. 2022): new samples compete only among classes of their task.

    So learning them does not push the old classes' outputs down. Replayed samples compete among all
    classes. The result is the mean over the n samples.

    >>> logits, y = torch.zeros(2, 4), torch.tensor([0, 3])
    >>> current = members([0, 1], of=4)
    >>> asymmetric_cross_entropy(logits, y, 1, current).item()  # (ln 2 + ln 4) / 2
    1.0397...

    Args:
        logits: The logits (…, n, classes) of the new samples first and then of the replayed ones.
        y: The classes of the samples (…, n).
        new: How many of the n samples are new.
        current: Whether each class is one of the current task (…, classes).
    """
    parts = [among(logits[..., :new, :], current), logits[..., new:, :]]
    return cross_entropy(torch.cat(parts, -2), y, new, current)


LOSSES: dict[str, Loss] = {"ce": cross_entropy, "ace": asymmetric_cross_entropy}
"""Every loss of this package by name."""


def find_loss(name: str) -> Loss:
    """Finds a loss: of this package, of an installed one, by a path to code, or handed over.

    A loss of a user's own may take the logits and classes alone, (n, classes) and (n,), as
    PyTorch's losses do.

    Args:
        name: The name that the settings have.
    """
    part = find_part("loss", name, LOSSES)
    return part if name in LOSSES else _own_loss(name, part)


def _own_loss(name: str, part: Any) -> Loss:
    """Makes a `Loss` of a user's own function, which sees one client and one view at a time.

    Args:
        name: The name that the settings have, for messages.
        part: A function of (logits, y), or of (logits, y, new, current); or a class of such
            objects, as PyTorch's losses are.
    """
    part = part() if inspect.isclass(part) else part
    long = takes(part, "logits", "y", "new", "current")
    short = takes(part, "logits", "y") and (not long or required_parameters(part) == 2)
    if not callable(part) or not (short or long):
        raise OfclError(
            f"the loss '{name}' must be a function of logits and classes, or of these, the number "
            f"of new samples and a mask of classes; it is a {type(part).__name__}"
        )

    def loss(logits: Tensor, y: Tensor, new: int, current: Tensor) -> Tensor:
        lead = y.shape[:-1]
        masks = current.expand(*lead, current.shape[-1]).reshape(-1, current.shape[-1])
        parts = zip(logits.reshape(-1, *logits.shape[-2:]), y.reshape(-1, y.shape[-1]), masks,
                    strict=True)  # fmt: skip
        each = [part(z, c) if short else part(z, c, new, mask) for z, c, mask in parts]
        if not all(isinstance(value, Tensor) and value.dim() == 0 for value in each):
            raise OfclError(
                f"the loss '{name}' must return one number, a tensor without dimensions"
            )
        return torch.stack(each).view(lead)

    return loss


@dataclass(frozen=True)
class Contrast:
    """The supervised contrastive term (Khosla et al. 2020), without a projection head.

    Samples of a class attract each other, all others repel each other, by the cosine of their
    features.

    Args:
        weight: The weight of the term.
        temperature: Divides the cosines; the smaller it is, the more the nearest samples count.
    """

    weight: float
    temperature: float = 0.1

    def __call__(self, features: Tensor, y: Tensor) -> Tensor:
        """Computes the weighted term, as a mean over samples that are not alone in their class.

        Args:
            features: The inputs of the head (…, n, features).
            y: The classes of the samples (…, n).
        """
        z = F.normalize(features, dim=-1)
        cosines = z @ z.transpose(-1, -2) / self.temperature  # (…, n, n)
        others = ~torch.eye(y.shape[-1], dtype=torch.bool, device=y.device)
        alike = ((y.unsqueeze(-1) == y.unsqueeze(-2)) & others).to(z.dtype)
        whole = cosines.masked_fill(~others, float("-inf")).logsumexp(-1, keepdim=True)
        partners = alike.sum(-1)  # (…, n)
        each = ((whole - cosines) * alike).sum(-1) / partners.clamp_min(1)
        counted = (partners > 0).to(z.dtype).sum(-1).clamp_min(1)
        return self.weight * each.sum(-1) / counted


def proximal_term(
    parameters: Sequence[Tensor],
    anchor: Sequence[Tensor],
    mu: float,
    kind: Literal["squared", "norms"] = "squared",
) -> Tensor:
    """Computes FedProx's term, which keeps a model near the global one: μ/2 ‖w − w_global‖².

    >>> w, w_global = [torch.tensor([3.0, 4.0])], [torch.zeros(2)]
    >>> [proximal_term(w, w_global, 0.1, kind).item() for kind in ("squared", "norms")]
    [1.25, 0.25]

    Args:
        parameters: The tensors w of the model.
        anchor: The tensors w_global of the last global model.
        mu: The weight μ of the term.
        kind: `squared`: as above; `norms`: as in the paper's released code, μ/2 Σ ‖w − w_global‖
            over the tensors, not squared.
    """
    power = 2 if kind == "squared" else 1
    distances = [
        torch.linalg.vector_norm(w - w_global) ** power
        for w, w_global in zip(parameters, anchor, strict=True)
    ]
    return mu / 2 * torch.stack(distances).sum()
