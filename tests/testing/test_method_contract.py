"""The contracts of methods and runs, with methods and runs that break them."""

import random

import pytest
import torch

from ofcl import Memory, OfclError, Policy, Run, make_settings
from ofcl.events import Evaluated, Learned
from ofcl.memory.policy import random_key
from ofcl.methods import METHODS, Generative, Method
from ofcl.seeds import generator
from ofcl.testing import (
    TINY,
    ContractBroken,
    check_method,
    check_run,
    make_blobs,
    make_images,
    method_contract,
)

FEW = {"tasks": 2, "steps": 1}


# Methods by their policies


def draws_globally(parts):
    return Policy(lambda x: torch.rand(len(x)), rekey="every-batch")


def draws_from_a_generator_of_its_own(parts):
    return Policy(random_key(generator(0, "unsaved")), rekey="every-batch")


def draws_anything(parts):
    entropy = random.SystemRandom()
    return Policy(lambda x: torch.tensor([entropy.random() for _ in x]), rekey="every-batch")


BROKEN_POLICIES = {
    draws_globally: "a run must draw from the generators that it is given.*of torch",
    draws_from_a_generator_of_its_own: "a run that is stopped and resumed ends bit for bit",
    draws_anything: "the same seed gives the same run",
}


@pytest.mark.parametrize("policy", BROKEN_POLICIES, ids=lambda policy: policy.__name__)
def test_a_method_with_a_broken_policy_is_caught(policy):
    with pytest.raises(ContractBroken, match=BROKEN_POLICIES[policy]):
        check_method(Method("broken", policy), **FEW)


def test_a_method_of_somebody_else_passes_and_is_not_left_in_the_table():
    before = dict(METHODS)

    def oldest(parts):
        return Policy(lambda x: torch.arange(len(x), dtype=torch.float))

    check_method(Method("keeps what came first", oldest), **FEW)
    assert before == METHODS


def test_outputs_for_classes_that_nobody_announced_are_looked_at(monkeypatch):
    monkeypatch.setattr(method_contract, "width", lambda model: 2)
    with pytest.raises(ContractBroken, match="an output for each of the 6 classes.*have .2, 6, 6."):
        check_method(METHODS["er"], **FEW)


# Methods with a learner of their own


class Still:
    """A learner that learns nothing: each mini-batch goes like the one before."""

    memory, penalty = None, None

    def __init__(self, parts):
        self.model, self.generator = parts.model, parts.generator
        self.learned = 0

    def learn(self, batch, current):
        self.learned += 1
        return torch.tensor([self.loss(batch), 0.0, 1.0])

    def loss(self, batch):
        return 1.0

    def grow(self, classes, seed):
        raise OfclError("this model cannot grow")

    def before_round(self):
        pass

    def after_round(self, global_model):
        pass

    def end_task(self):
        pass

    def before_test(self):
        pass

    def sends(self):
        return {}

    def receives(self, global_model, handed):
        pass

    def state(self):
        return {}

    def load_state(self, state):
        pass


class AtServer:
    every_round = False

    def __init__(self, parts):
        pass

    def after_round(self, model, updates):
        return {}

    def end_task(self, model):
        return {}

    def pictures(self, each):
        return {}

    def state(self):
        return {}

    def load_state(self, state):
        pass


class Sound(Still):
    """Keeps its contract: its losses are drawn."""

    def loss(self, batch):
        return torch.rand(1, generator=self.generator).item()

    def state(self):
        return {"generator": self.generator.get_state()}

    def load_state(self, state):
        self.generator.set_state(state["generator"])


class Unsaved(Sound):
    def load_state(self, state):
        pass


class Leaks(Sound):
    last = torch.empty(0)

    def loss(self, batch):
        self.last = batch.x.clone()
        return super().loss(batch)

    def sends(self):
        return {"images": self.last}


class SendsNoNumbers(Sound):
    def sends(self):
        return {"mean": torch.tensor([float("nan")])}


class Diverges(Sound):
    def loss(self, batch):
        with torch.no_grad():
            self.model.head.bias[0] = float("inf")
        return super().loss(batch)


class Remembers(Sound):
    def __init__(self, parts):
        super().__init__(parts)
        self.memory = Memory(5, Policy(random_key(self.generator)), self.generator)


BROKEN_LEARNERS = {
    Still: "another seed gives another run",
    Unsaved: "a run that is stopped and resumed ends bit for bit",
    Leaks: "no sample ever leaves a client; 'images' of its update has one",
    SendsNoNumbers: "finite tensors leave a client; 'mean' is",
    Diverges: "models stay finite; 'head.bias'",
    Remembers: "a memory exactly if it has a policy",
}


def method_of(learner):
    return Method("a test's", generative=Generative(learner, AtServer, lambda shape: None))


@pytest.mark.parametrize("learner", BROKEN_LEARNERS, ids=lambda learner: learner.__name__)
def test_a_method_with_a_broken_learner_is_caught(learner):
    with pytest.raises(ContractBroken, match=BROKEN_LEARNERS[learner]):
        check_method(method_of(learner), make_images(train=12, test=2))


def test_a_method_with_a_sound_learner_passes():
    check_method(method_of(Sound), make_images(train=12, test=2))


# Runs


class Unevaluated(Run):
    def __iter__(self):
        return (event for event in super().__iter__() if not isinstance(event, Evaluated))


class LearnsTwice(Run):
    def __iter__(self):
        for event in super().__iter__():
            yield event
            if isinstance(event, Learned):
                yield event


class OverflowingMemories(Run):
    def __iter__(self):
        yield from super().__iter__()
        self.settings = self.settings.model_copy(update={"memory": 5})


class FewForARound(Run):
    def __iter__(self):
        self.settings = self.settings.model_copy(update={"min_clients": 3})
        return super().__iter__()


class ReportsNonsense(Run):
    def __iter__(self):
        yield Learned(0, 0, batches=1, samples=5, loss=1.0, correct=6)


BROKEN_RUNS = {
    Unevaluated: "every client is evaluated once after each task",
    LearnsTwice: "every mini-batch is learned once: of .*, .* were learned",
    OverflowingMemories: "a memory for 5 samples never has more; it has 12",
    FewForARound: "a round has at least 3 clients",
    ReportsNonsense: "no more predictions are right than there are",
}


@pytest.mark.parametrize("run", BROKEN_RUNS, ids=lambda run: run.__name__)
def test_a_broken_run_is_caught(run):
    with pytest.raises(ContractBroken, match=BROKEN_RUNS[run]):
        check_run(run(make_settings({**TINY, "method": "er", "tasks": 2}), make_blobs()))
