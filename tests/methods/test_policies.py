import pytest
import torch

from ofcl import Memory
from ofcl.methods.parts import PolicyParts
from ofcl.methods.policies import by_score


@pytest.mark.parametrize(("keep", "stay"), [("bottom", [0, 1, 2]), ("top", [7, 8, 9])])
def test_a_score_keeps_the_least_or_the_most_uncertain(keep, stay):
    class Scorer:
        frozen = True

        def uncertainty_of(self, x):
            return x[:, 0]

    parts = PolicyParts(torch.Generator(), lambda score: Scorer(), keep)
    memory = Memory(3, by_score("bi")(parts), torch.Generator())
    memory.update(torch.arange(10.0)[torch.randperm(10)][:, None], torch.zeros(10).long(), task=0)
    assert sorted(memory.x[:, 0].tolist()) == stay
