"""Scaling that all parties share: made of the statistics of each, without anybody's samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ofcl.data.sample_forms import TableForm
from ofcl.data.standardisation import pool_moments
from ofcl.safeguards.bounds import usual_of

CLIP = 10.0  # standardised numbers are clipped to this before they are summed
MOST_WEIGHT = 3.0  # nobody counts more than so many times the usual number of samples
SMALLEST = 1e-6  # deviation

Numbers = tuple[float, ...]


def column_words(form: TableForm) -> tuple[str, ...]:
    """Names the columns of a table in their order, each with its kind and its categories.

    Args:
        form: The form of the table's rows.
    """
    if not form.codes:
        return tuple(f"{name}: number" for name in form.columns)
    return tuple(
        f"{code.name}: {code.kind}{' ' if code.categories else ''}{'|'.join(code.categories)}"
        f"{', gaps' if code.gaps else ''}"
        for code in form.codes
    )


def moments(form: TableForm, x: Tensor) -> tuple[Numbers, Numbers]:
    """Measures mean and deviation of each number of a table's rows, as they are in the table.

    Args:
        form: The form of the rows, with the standardisation that they have.
        x: The standardised rows (n, d); far ones are clipped first.
    """
    mean, scale = (torch.tensor(v, dtype=torch.double) for v in (form.mean, form.scale))
    clipped = x.double().clamp(-CLIP, CLIP)
    deviation = clipped.std(dim=0, correction=0)
    plain = (mean == 0) & (scale == 1)  # categories and marks of gaps are never scaled
    fixed = plain | (deviation < SMALLEST)
    found = torch.where(plain, mean, mean + clipped.mean(dim=0) * scale)
    return tuple(found.tolist()), tuple(torch.where(fixed, scale, deviation * scale).tolist())


def pooled(parts: Sequence[tuple[int, Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    """Makes mean and deviation of all parties' samples from those of each party.

    >>> pooled([(5, (0.0,), (1.0,)), (5, (2.0,), (1.0,))])
    ((1.0,), (1.4142135623730951,))

    Args:
        parts: For each party the number of its samples, their mean and their deviation.
    """
    if len({part[1:] for part in parts}) == 1:  # to the last bit
        return parts[0][1:]
    most = MOST_WEIGHT * usual_of([count for count, _, _ in parts])
    weights = [min(count, most) for count, _, _ in parts]
    mean, std = pool_moments(weights, *(np.array([part[k] for part in parts]) for k in (1, 2)))
    return tuple(mean.tolist()), tuple(np.maximum(std, SMALLEST).tolist())


def rescaled(x: Tensor, form: TableForm, mean: Numbers, std: Numbers) -> Tensor:
    """Gives rows that a party has standardised in its own way the scaling of all parties.

    Args:
        x: The standardised rows (n, d).
        form: Their form, with the party's own standardisation.
        mean: The mean of each number, over all parties.
        std: The deviation of each number, over all parties.
    """
    own, scale, mean_, std_ = (
        torch.tensor(v, dtype=torch.double) for v in (form.mean, form.scale, mean, std)
    )
    return ((x.double() * scale + own - mean_) / std_).to(x.dtype)
