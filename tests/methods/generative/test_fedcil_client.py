import copy

import pytest
import torch

from ofcl.data.stream import Batch
from ofcl.methods.generative import (
    fedcil_client,
)
from tests.support.generative import make_gan
from tests.test_experiment import assert_same


def make_fedcil(**options):
    gan = make_gan()
    return fedcil_client.FedCIL(model=gan, classes=4, generator=torch.Generator().manual_seed(0),
                         steps=1, **options)  # fmt: skip


def batch(*labels):
    return Batch(torch.randn(len(labels), 1, 8, 8), torch.tensor(labels), 0)


def end_task(learner):
    """What happens at the end of a task, in its order: a last round is before the next begins."""
    learner.end_task()
    learner.after_round(learner.model.state_dict())
    learner.receives(learner.model.state_dict(), {})


def test_what_is_sent_in_the_last_round_is_of_the_task_that_ends():
    learner = make_fedcil()
    learner.learn(batch(0, 1, 0), torch.tensor([0, 1]))
    learner.end_task()
    sent = learner.sends()
    assert (sent["now"].tolist(), sent["past"].tolist()) == ([0, 1], [])
    learner.receives(learner.model.state_dict(), {})
    learner.learn(batch(2, 3, 2), torch.tensor([2, 3]))
    first = {name: value.clone() for name, value in learner._last.state_dict().items()}
    learner.end_task()
    sent = learner.sends()
    assert (sent["now"].tolist(), sent["past"].tolist()) == ([2, 3], [0, 1])
    assert torch.equal(sent["last.linear.weight"], first["linear.weight"])
    learner.receives(learner.model.state_dict(), {})
    assert learner.sends()["past"].tolist() == [0, 1, 2, 3]


def test_replayed_images_are_of_past_classes_only():
    learner = make_fedcil()
    learner.learn(batch(0, 1, 0), torch.tensor([0, 1]))
    end_task(learner)
    asked = []
    make = learner.model.make

    def watched(noise, y, generator=None):
        asked.append((generator is learner._last, set(y.tolist())))
        return make(noise, y, generator)

    learner.model.make = watched
    for _ in range(5):
        learner.learn(batch(2, 3, 2), torch.tensor([2, 3]))
    replayed = [classes for of_last, classes in asked if of_last]
    others = [classes for of_last, classes in asked if not of_last]
    assert len(replayed) == 5
    assert set().union(*replayed) == {0, 1}
    assert set().union(*others) == {0, 1, 2, 3}


def test_the_last_generator_does_not_learn_on():
    learner = make_fedcil()
    learner.learn(batch(0, 1, 0), torch.tensor([0, 1]))
    end_task(learner)
    before = copy.deepcopy(learner._last.state_dict())
    learner.learn(batch(2, 3, 2), torch.tensor([2, 3]))
    assert_same(learner._last.state_dict(), before)
    changed = learner.model.generator.state_dict()["linear.weight"]
    assert not torch.equal(changed, before["linear.weight"])


@pytest.mark.parametrize("consistency", [0.0, 1.0])
def test_consistency_begins_after_a_round_of_the_task(consistency):
    learner = make_fedcil(consistency=consistency)
    asked = []
    inconsistency = learner._inconsistency
    learner._inconsistency = lambda *parts: (asked.append(1), inconsistency(*parts))[1]
    learner.learn(batch(0, 1), torch.tensor([0, 1]))
    assert not asked
    learner.after_round(learner.model.state_dict())
    learner.learn(batch(0, 1), torch.tensor([0, 1]))
    assert len(asked) == (1 if consistency else 0)
    end_task(learner)  # the last round of a task does not count for the next
    learner.learn(batch(2, 3), torch.tensor([2, 3]))
    assert len(asked) == (1 if consistency else 0)


def test_inconsistency_is_the_sum_of_its_three_terms():
    learner = make_fedcil()
    gan = learner.model
    y, c = torch.tensor([0, 1]), torch.tensor([2, 3])
    logits, made = torch.randn(2, 4), torch.randn(2, 4)
    inputs = copy.deepcopy(learner._inputs)
    inputs.random = torch.Generator()
    inputs.random.set_state(learner._inputs.random.get_state())
    found = learner._inconsistency(logits, y, made, c)
    of_server = gan(gan.make(inputs.noise(4), torch.cat([y, c]), learner._server)).softmax(1)

    def kl(p, q):
        return (p * (p / q).log()).sum(1).mean()

    expected = (
        kl(of_server[:2], logits.softmax(1))
        + kl(of_server[2:], made.softmax(1))
        - of_server[2:][[0, 1], c].log().mean()
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
