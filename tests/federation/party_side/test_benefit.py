"""Does taking part help? Exact counts, and whether chance alone could do it."""

import numpy as np

from ofcl.evaluation.held_out import Predictions
from ofcl.federation.party_side.benefit import Comparison


def compared(**right):
    """Two tasks; the last sample alone is of the second."""
    classes = np.zeros(len(right["global"]), dtype=int)
    made = {}
    for name, wanted in right.items():
        predicted = 1 - np.array(wanted)
        made[name] = [Predictions(classes[:-1], predicted[:-1]),
                      Predictions(classes[-1:], predicted[-1:])]  # fmt: skip
    return Comparison.of(made)


def test_accuracies_and_the_difference_in_words():
    some = compared(**{"global": [1, 1, 1, 0, 1], "own": [1, 1, 0, 0, 0], "alone": [0, 0, 0, 1, 0]})
    assert [some.accuracy(name) for name in ("global", "own", "alone")] == [80.0, 40.0, 20.0]
    assert some.mean_over_tasks("global") == 87.5
    assert some.mean_over_tasks("own") == 25.0
    assert some.chance("global") == 2 * (1 + 5) / 2**5  # four better, one worse
    assert some.in_words("global") == [
        "on your test data (5 samples): global model 80.0 %, your own 40.0 %, "
        "learned from your data alone 20.0 %",
        "taking part gives you 60.0 points more; so small a difference may be chance",
    ]
    assert some.to_json("own") == {
        "samples": 5, "global": 80.0, "own": 40.0, "alone": 20.0, "chance": 1.0,
    }  # fmt: skip


def test_a_difference_that_is_clear_and_one_that_goes_the_other_way():
    clear = compared(**{"global": [1] * 10, "own": [0] * 10, "alone": [0] * 7 + [1] * 3})
    assert clear.chance("global") == 2 / 2**7
    assert clear.in_words("global")[1] == "taking part gives you 70.0 points more"
    assert clear.in_words("own")[1] == (
        "taking part gives you 30.0 points fewer; so small a difference may be chance"
    )


def test_without_a_model_alone_or_without_test_data():
    plain = compared(**{"global": [1, 0], "own": [1, 1]})
    assert plain.in_words("own") == [
        "on your test data (2 samples): global model 50.0 %, your own 100.0 %"
    ]
    assert plain.to_json("own") == {"samples": 2, "global": 50.0, "own": 100.0}
    nothing = np.empty(0, dtype=int)
    untested = Comparison.of({"global": [Predictions(nothing, nothing)], "own": []})
    assert untested.mean_over_tasks("global") is None
    assert untested.to_json("global") == {"samples": 0}
    assert untested.in_words("global") == [
        "there are no test data here, so nobody knows how good the models are for you"
    ]
