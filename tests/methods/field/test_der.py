"""DER++: its loss, and the logits that the memory keeps."""

import math

import pytest
import torch

import ofcl
from ofcl.memory.memory import Memory
from ofcl.memory.policy import Policy, random_key
from ofcl.memory.store import LOGITS
from ofcl.methods.additions import Step
from ofcl.methods.field.der import DarkExperience
from ofcl.methods.losses import cross_entropy, members
from ofcl.seeds import generator
from ofcl.testing import TINY, make_blobs


def memory_of(n, size=10):
    """A memory with n samples of class 0, whose logits are (0, 1), (0, 2), …"""
    draws = generator(0, "memory")
    memory = Memory(
        size, Policy(random_key(draws), balanced=False), draws, device=torch.device("cpu")
    )
    memory.update(torch.arange(n).float().unsqueeze(1), torch.zeros(n, dtype=torch.long), 0)
    memory.attach({LOGITS: torch.stack([torch.zeros(n), torch.arange(1.0, n + 1)], 1)})
    return memory


def step_of(logits, y, new, places):
    return Step(torch.empty(len(y), 1), torch.empty(len(y), 1), logits.unsqueeze(0), y, new,
                members([0, 1], of=logits.shape[1]), places, is_first=True)  # fmt: skip


def test_the_loss_by_hand():
    memory = memory_of(2)
    at = memory.draw(2)[0]
    wanted = memory.extras_at(LOGITS, at)[0, 1].item()  # the second logit of the first lot's sample
    dark = DarkExperience(memory, cross_entropy, alpha=0.5, beta=2.0)
    logits = torch.tensor([[0.0, 0.0], [0.0, wanted + 3.0], [math.log(3.0), 0.0]])
    step = step_of(logits, torch.tensor([1, 0, 0]), 1, at)
    dark.before_steps(1, step.current)
    loss = dark.objective(step)
    # ln 2 of the new one; half of 3²; the third has a probability of 3/4
    assert loss.item() == pytest.approx(math.log(2) + 0.5 * 9 / 2 + 2.0 * math.log(4 / 3))


def test_nothing_is_replayed_from_an_empty_memory():
    dark = DarkExperience(memory_of(0), cross_entropy, alpha=1.0, beta=1.0)
    step = step_of(torch.zeros(1, 2), torch.tensor([0]), 1, torch.empty(0).long())
    dark.before_steps(1, step.current)
    loss = dark.objective(step)
    assert loss.item() == pytest.approx(math.log(2))


def test_logits_stay_with_their_samples():
    memory = memory_of(30, size=5)
    x, _ = memory.at(memory.draw(5)[0])
    places = memory.draw(5)[0]
    x, _ = memory.at(places)
    assert torch.equal(memory.extras_at(LOGITS, places)[:, 1], x[:, 0] + 1)


def test_logits_grow_with_the_head_and_new_ones_are_not_known():
    memory = memory_of(3)
    memory.grow(4, seed=0)
    memory.update(torch.full((1, 1), 9.0), torch.tensor([3]), 1)
    memory.attach({LOGITS: torch.full((1, 4), 7.0)})
    kept = memory.extras_at(LOGITS, memory.draw(4)[0])
    assert sorted(kept.isnan().sum(1).tolist()) == [0, 2, 2, 2]


def test_logits_are_saved():
    memory, other = memory_of(8, size=4), memory_of(1, size=4)
    state = memory.state()
    other.load_state(state)
    places = other.draw(4)[0]
    assert torch.equal(other.extras_at(LOGITS, places)[:, 1], other.at(places)[0][:, 0] + 1)


def test_a_client_remembers_what_it_predicted_first():
    run = ofcl.Run(
        ofcl.make_settings({**TINY, "method": "der", "steps": 1, "tasks": 1}), make_blobs()
    )
    client = run.clients[0]
    batch, current = client.take()
    client.model.eval()
    with torch.no_grad():
        before = client.model(batch.x)
    client.learner.learn(batch, current)
    memory = client.learner.memory
    places = memory.draw(5)[0]
    x, _ = memory.at(places)
    rows = [int((batch.x == each).all(1).nonzero()) for each in x]
    assert torch.allclose(memory.extras_at(LOGITS, places), before[rows], atol=1e-6)


def test_a_lone_sample_is_remembered_with_its_own_logits():
    """With samples to replay it is not doubled."""
    memory = memory_of(4)
    dark = DarkExperience(memory, cross_entropy, alpha=0.5, beta=2.0)
    logits = torch.tensor([[5.0, 6.0], [0.0, 0.0], [0.0, 0.0]])
    step = step_of(logits, torch.tensor([1, 0, 0]), 1, memory.draw(2)[0])
    dark.before_steps(1, step.current)
    dark.objective(step)
    memory.update(torch.full((1, 1), 9.0), torch.tensor([1]), 0)
    dark.after_steps(1)
    assert memory.extras_at(LOGITS, memory.draw(5)[0]).tolist().count([5.0, 6.0]) == 1
