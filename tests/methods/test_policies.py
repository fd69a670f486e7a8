import pytest
import torch

from ofcl import Memory, Run, make_settings
from ofcl.errors import OfclError
from ofcl.methods import METHODS
from ofcl.methods.parts import PolicyParts
from ofcl.methods.policies import by_score
from ofcl.testing import check_method, make_blobs


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


class Told:
    """A scorer that says the first number of a sample, and notes the classes that it is given."""

    frozen = True

    def __init__(self):
        self.classes = []

    def round_passed(self, when):
        pass

    def uncertainty_of(self, x, *y):
        self.classes += [classes.tolist() for classes in y]
        return x[:, 0]


def test_a_score_that_knows_labels_is_given_those_of_the_samples():
    scorer = Told()
    parts = PolicyParts(torch.Generator(), lambda score: scorer, rescore="at-risk")
    memory = Memory(2, by_score("loss")(parts), torch.Generator())
    memory.update(torch.tensor([[0.1], [0.2], [0.3]]), torch.tensor([0, 1, 1]), task=0)
    memory.after_round()
    memory.update(torch.tensor([[0.05]]), torch.tensor([1]), task=0)
    assert scorer.classes == [[0, 1, 1], [1, 1]]  # then the remembered one at risk, and the new one
    assert memory.samples.y.tolist() == [0, 1]
    plain = Told()
    by_score("bi")(PolicyParts(torch.Generator(), lambda score: plain)).keys(torch.ones(2, 1), None)
    assert plain.classes == []


def test_scores_by_rank_are_computed_on_arrival():
    policy = by_score("bi")(PolicyParts(torch.Generator(), lambda score: Told(), scale="rank"))
    assert policy.rekey == "on-arrival"
    assert policy.ranks is not None


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("bi", {"keep": "weighted", "replay_draw": "key"}),
        ("bi", {"keep": "spread", "score_scale": "rank", "replay_draw": "class"}),
        ("bi", {"keep": "diverse", "memory": 10}),
        ("loss", {"keep": "weighted", "keep_beta": 1.0, "label_noise": 0.2, "input_noise": 0.1}),
    ],
)
def test_a_run_is_resumed_bit_for_bit_whatever_stays(method, values):
    check_method(METHODS[method], **values)


def test_a_weighted_draw_without_a_power_is_chance():
    """Like CBR it looks at no score; what stays depends on the seed alone."""
    data, kept = make_blobs(train=24), []
    for score in ("bi", "en"):
        values = {"method": score, "keep": "weighted", "keep_beta": 0.0, "memory": 12, "clients": 2,
                  "tasks": 2, "hidden": 4, "steps": 1, "burn_in": 1}  # fmt: skip
        run = Run(make_settings(values), data)
        for _ in run:
            pass
        kept.append([client.learner.memory.samples.id.tolist() for client in run.clients])
    assert kept[0] == kept[1]


def test_replay_by_key_needs_a_score():
    with pytest.raises(OfclError, match="needs a method that scores, for example bi; not cbr"):
        Run(make_settings({"method": "cbr", "replay_draw": "key"}), make_blobs())
