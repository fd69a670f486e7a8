import pytest
import torch

from ofcl import Memory, Policy
from ofcl.memory.expiry import DAY
from ofcl.memory.policy import random_key
from ofcl.seeds import generator


@pytest.mark.parametrize("balanced", [True, False])
def test_what_is_too_old_is_forgotten(balanced):
    draws = generator(0, "age")
    policy = Policy(random_key(draws), balanced=balanced)
    memory = Memory(20, policy, draws, age=30)
    for n in range(20):
        x = torch.arange(10 * n, 10 * n + 10, dtype=torch.float).view(10, 1)
        memory.update(x, torch.arange(10) % 3, task=n)
        ids = memory.samples.id
        assert (ids >= 10 * n - 30).all()
        assert torch.equal(memory.x[:, 0].long(), ids)
        assert len(memory) == min(20, 10 * (n + 1))
    old = memory.state()
    other = Memory(20, policy, draws, age=30)
    other.load_state(old)
    assert other.samples.id.tolist() == memory.samples.id.tolist()


def test_samples_are_forgotten_some_days_after_they_came(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("ofcl.memory.expiry.time.time", lambda: now[0])
    draws = generator(0, "days")

    def made():
        return Memory(50, Policy(random_key(draws)), draws, days=2)

    memory, came = made(), {}
    for day in range(6):
        for hour in range(0, 24, 6):
            now[0] = 1000.0 + DAY * day + 3600 * hour
            first = memory._arrived
            memory.update(torch.rand(3, 2), torch.tensor([0, 1, 1]), task=0)
            came |= dict.fromkeys(range(first, first + 3), now[0])
            ids = memory.samples.id.tolist()
            assert min(came[i] for i in ids) >= now[0] - 2 * DAY
            # Nothing goes before its time, but by a thousandth.
            due = [i for i in came if came[i] >= now[0] - 1.99 * DAY]
            assert set(due) <= set(ids)
        saved, memory = memory.state(), made()
        memory.load_state(saved)
    now[0] += 10 * DAY
    memory.update(torch.rand(1, 2), torch.tensor([0]), task=0)
    assert memory.samples.id.tolist() == [72]
    assert len(memory.state()["came"]) == 1


def test_without_new_samples_of_a_class_age_empties_it():
    draws = generator(0, "age")
    memory = Memory(10, Policy(random_key(draws)), draws, age=25)
    memory.update(torch.zeros(10, 1), torch.zeros(10, dtype=torch.long), task=0)
    for _ in range(4):
        memory.update(torch.ones(10, 1), torch.ones(10, dtype=torch.long), task=1)
    assert set(memory.samples.y.tolist()) == {1}
    assert len(memory) == 10
