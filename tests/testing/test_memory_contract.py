"""The contracts of memories and policies, with some that break them."""

from dataclasses import replace

import pytest
import torch

from ofcl import Memory, Policy
from ofcl.memory.policy import random_key
from ofcl.seeds import generator
from ofcl.testing import ContractBroken, check_memory, check_policy


class Hoarder(Memory):
    def __len__(self):
        return super().__len__() + 5


class Repeater(Memory):
    @property
    def samples(self):
        return replace(super().samples, id=torch.zeros_like(super().samples.id))


class Inventor(Memory):
    @property
    def samples(self):
        return replace(super().samples, id=super().samples.id + 1000)


class Mixer(Memory):
    @property
    def x(self):
        return super().x.roll(1, 0)


class Mislabeler(Memory):
    @property
    def samples(self):
        return replace(super().samples, y=super().samples.y + 1)


class Loser(Memory):
    """Never takes more than two samples of a mini-batch."""

    def update(self, x, y, task, current=()):
        super().update(x[:2], y[:2], task, current)
        self._arrived += len(x) - len(x[:2])


class Favourer(Memory):
    """All classes compete, though the policy says that they are balanced."""

    def update(self, x, y, task, current=()):
        self.policy = replace(self.policy, balanced=False)
        super().update(x, y, task, current)
        self._settled()
        self.policy = replace(self.policy, balanced=True)


class DrawsAnew(Memory):
    """Forgets where its draws were."""

    def load_state(self, state):
        super().load_state(state | {"generator": generator(7, "other").get_state()})


class Forgetful(Memory):
    """Does not know how many samples have come."""

    def load_state(self, state):
        super().load_state(state | {"arrived": state["arrived"] + 1})


class Unsaved(Memory):
    def state(self):
        return super().state() | {"policy": self.policy}


BROKEN_MEMORIES = {
    Hoarder: "a memory for 12 samples never has more|describes",
    Repeater: "no sample is in a memory twice",
    Inventor: "nothing that was not offered",
    Mixer: "as they were offered",
    Mislabeler: "as they were offered",
    Loser: "are in a memory for 12",
    Favourer: "as many of each class as the stream allows",
    DrawsAnew: "draws the same samples for replay|goes on bit for bit alike",
    Forgetful: "goes on bit for bit alike",
    Unsaved: "must be tensors and plain values",
}


def make(kind):
    draws = generator(0, "memory")
    return kind(12, Policy(random_key(draws)), draws)


@pytest.mark.parametrize("kind", BROKEN_MEMORIES, ids=lambda kind: kind.__name__)
def test_a_broken_memory_is_caught(kind):
    with pytest.raises(ContractBroken, match=BROKEN_MEMORIES[kind]):
        check_memory(lambda: make(kind))


def by_arrival(parts):
    """Keeps a count of its own, which no checkpoint has."""
    calls = iter(range(10**6))
    return Policy(lambda x: torch.tensor([float(next(calls) % 7) for _ in x]))


def with_another_generator(parts):
    return Policy(random_key(generator(3, "other")))


def not_a_number(parts):
    return Policy(lambda x: x[:, 0] / 0 * 0)


def one_for_all(parts):
    return Policy(lambda x: x[:, :1])


BROKEN_POLICIES = {
    by_arrival: "goes on bit for bit alike",
    with_another_generator: "goes on bit for bit alike",
    not_a_number: "gives each sample a finite key",
    one_for_all: "gives each sample a finite key",
    lambda parts: Policy(lambda x: torch.rand(len(x))): "generator of torch",
}


@pytest.mark.parametrize("policy", BROKEN_POLICIES, ids=lambda policy: policy.__name__)
def test_a_broken_policy_is_caught(policy):
    with pytest.raises(ContractBroken, match=BROKEN_POLICIES[policy]):
        check_policy(policy)


def test_a_policy_that_keeps_it_passes():
    check_policy(lambda parts: Policy(lambda x: -x[:, 0], rekey=parts.rescore))
