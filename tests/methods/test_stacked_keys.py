"""Keys of several clients that are computed together."""

import pytest
import torch

from ofcl import Run, make_settings
from ofcl.methods import stacked, stacked_keys
from tests.conftest import TINY


@pytest.mark.parametrize("changed", [{"keep": "bottom"}, {"keep": "top"}, {"method": "loss"}])
def test_keys_together_are_those_alone(monkeypatch, blobs, changed):
    compared = []
    scores = stacked_keys._scores

    def both(asking, weights):
        scorers = [ask.key.scorer for ask in asking]
        before = [scorer._draws.state() for scorer in scorers]
        together = scores(asking, weights)
        for ask, scorer, state, own in zip(asking, scorers, before, together, strict=True):
            scorer._draws.load_state(state)
            y = [ask.samples.y] if ask.memory.policy.labelled else []
            alone = scorer.uncertainty_of(ask.samples.x, *y)
            compared.append(len(asking))
            assert torch.allclose(own, alone, rtol=1e-5, atol=1e-6)
        return together

    monkeypatch.setattr(stacked_keys, "_scores", both)
    for _ in Run(make_settings({**TINY, "method": "bi", **changed}), blobs):
        pass
    assert max(compared) > 1


@pytest.mark.parametrize(
    ("changed", "stacked_too"),
    [
        ({}, True),
        ({"scoring_model": "current", "rescore": "every-batch"}, False),
        ({"method": "cbr"}, False),
    ],
)
def test_only_scores_by_a_copy_of_the_model_are_stacked(monkeypatch, blobs, changed, stacked_too):
    """Others are computed alone: random keys, and scores by the model that learns."""
    asked, scored = [], []
    together, scores = stacked.set_keys_together, stacked_keys._scores
    monkeypatch.setattr(
        stacked, "set_keys_together", lambda *given: asked.append(1) or together(*given)
    )
    monkeypatch.setattr(stacked_keys, "_scores", lambda *given: scored.append(1) or scores(*given))
    for _ in Run(make_settings({**TINY, "method": "bi", **changed}), blobs):
        pass
    assert asked
    assert bool(scored) == stacked_too
