"""The contract of a score, with functions that break it."""

import pytest
import torch

from ofcl.testing import ContractBroken, check_score
from ofcl.uncertainty.scores import bregman_information, entropy


def changes_its_input(logits):
    logits.sub_(logits.mean())
    return entropy(logits)


def overflows(logits):
    p = logits.exp() / logits.exp().sum(-1, keepdim=True)
    return -(p * p.log()).sum(-1).mean(0)


BROKEN_SCORES = {
    "one number for each sample": lambda z: entropy(z).unsqueeze(0),
    "scores are finite": overflows,
    "must not change the logits": changes_its_input,
    "the same logits have the same scores": lambda z, calls=[]: (
        calls.append(0) or entropy(z) + len(calls)
    ),
    "order of the samples": lambda z: entropy(z) + torch.arange(z.shape[1]),
    "its own copies alone": lambda z: entropy(z) / entropy(z).sum(),
    "a larger score means less certain": lambda z: -bregman_information(z),
    "not less certain than copies that disagree": lambda z: (
        entropy(z) - z[..., 0].std(0, correction=0)
    ),
    "generator of torch": lambda z: entropy(z) + 0 * torch.rand(z.shape[1]),
}  # fmt: skip


@pytest.mark.parametrize("message", BROKEN_SCORES)
def test_a_broken_score_is_caught(message):
    with pytest.raises(ContractBroken, match=message):
        check_score(BROKEN_SCORES[message])


def test_a_constant_is_no_score():
    with pytest.raises(ContractBroken, match="a larger score means less certain"):
        check_score(lambda z: torch.zeros(z.shape[1]))
