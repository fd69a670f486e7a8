import pytest
import torch

from ofcl import Memory, Policy
from ofcl.seeds import generator


@pytest.mark.parametrize(
    ("rekey", "calls"),
    [
        ("never", [3, 1, 1, 1]),
        ("every-round", [3, 1, 3, 1]),  # after the round, those remembered once more
        ("every-batch", [3, 3, 3, 3]),
    ],
)
def test_keys_are_kept_as_long_as_the_policy_says(rekey, calls):
    asked = []

    def key(x):
        asked.append(len(x))
        return x[:, 0]

    memory = Memory(2, Policy(key, rekey=rekey), generator(0, "draw"))
    memory.update(torch.arange(3.0).unsqueeze(1), torch.zeros(3, dtype=torch.long), task=0)
    for step in range(3):
        if step == 1:
            memory.after_round()
        memory.update(torch.tensor([[9.0]]), torch.tensor([0]), task=0)
    assert asked == calls


def test_at_risk_the_worst_are_scored_again_and_no_more_than_arrive():
    values = {}  # what the model says of a sample now
    asked = []

    def key(x):
        asked.append(sorted(x[:, 0].tolist()))
        return torch.tensor([values.get(v, v) for v in x[:, 0].tolist()])

    memory = Memory(4, Policy(key, rekey="at-risk"), generator(0, "draw"))
    zeros = torch.zeros(4, dtype=torch.long)
    memory.update(torch.tensor([[1.0], [2.0], [3.0], [4.0]]), zeros, task=0)
    assert asked.pop() == [1, 2, 3, 4]  # on arrival, though there is room
    memory.update(torch.tensor([[2.5]]), zeros[:1], task=0)
    assert asked.pop() == [2.5]  # nothing has changed for the others
    assert sorted(memory.x[:, 0].tolist()) == [1, 2, 2.5, 3]
    memory.after_round()
    values[3.0] = 0.0  # the worst is the best now
    memory.update(torch.tensor([[2.25]]), zeros[:1], task=0)
    assert asked.pop() == [2.25, 3]
    assert sorted(memory.x[:, 0].tolist()) == [1, 2, 2.25, 3]  # 2.5 went, by its old score
    memory.update(torch.tensor([[2.125]]), zeros[:1], task=0)
    assert asked.pop() == [2, 2.125]  # 2.25 and 3 have been scored since the round
    assert sorted(memory.x[:, 0].tolist()) == [1, 2, 2.125, 3]


def test_at_risk_every_class_has_its_turn():
    asked = []

    def key(x):
        asked.append(sorted(x[:, 0].tolist()))
        return x[:, 0]

    memory = Memory(8, Policy(key, rekey="at-risk"), generator(0, "draw"))
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    memory.update(torch.tensor([[1.0], [2], [3], [4], [11], [12], [13], [14]]), y, task=0)
    memory.after_round()
    new = torch.tensor([[0.5], [1.5], [10.5], [11.5]])
    memory.update(new, torch.tensor([0, 0, 1, 1]), task=0)
    assert asked[-1] == [0.5, 1.5, 4, 10.5, 11.5, 14]  # the worst of each, not the largest two
