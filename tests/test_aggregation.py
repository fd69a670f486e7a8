import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ofcl import Server
from ofcl.aggregation import (
    average,
    fedavg,
    geometric_median,
    krum,
    median,
    mix,
    trimmed_mean,
    weighted_fedavg,
)
from ofcl.privacy import clipped
from ofcl.update import Update, travelling


def update(client, value, classes):
    return Update(client, {"w": torch.tensor([float(value)])}, sum(classes.values()), classes)


def value(model):
    return model["w"].item()


def test_fedavg_weighs_by_samples():
    assert value(fedavg([update(0, 1.0, {0: 30}), update(1, 5.0, {1: 10})])) == 2.0


def test_weighted_fedavg_gives_every_class_the_same_weight():
    updates = [update(0, 1.0, {0: 30, 1: 10}), update(1, 5.0, {1: 10})]
    # class 0: 1; class 1: (10·1 + 10·5) / 20 = 3
    assert value(weighted_fedavg(updates)) == 2.0
    # by the task's samples, class 1: (40·1 + 10·5) / 50 = 1.8
    assert value(weighted_fedavg(updates, class_weights="task")) == pytest.approx(1.4)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 50)), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from(["class", "task"]),
)
def test_weighted_equals_fedavg_when_classes_are_equally_spread(clients, classes, class_weights):
    updates = [update(k, v, dict.fromkeys(range(classes), n)) for k, (v, n) in enumerate(clients)]
    weighted = weighted_fedavg(updates, class_weights=class_weights)
    assert value(weighted) == pytest.approx(value(fedavg(updates)), abs=1e-4)


def test_released_nesting_gives_a_quarter_new_when_all_share_the_task():
    updates = [update(k, 8.0, {0: 5, 1: 5}) for k in range(3)]
    previous = {"w": torch.tensor([0.0])}
    new = weighted_fedavg(updates, previous, class_weights="task", nested=0.5)
    assert value(mix(new, previous, 0.5)) == 2.0
    # A class that only one client has is not averaged with the previous model there.
    alone = weighted_fedavg([update(0, 8.0, {0: 5})], previous, class_weights="task", nested=0.5)
    assert value(mix(alone, previous, 0.5)) == 4.0


def test_average_does_not_touch_what_it_averages():
    models = [{"w": torch.ones(2)}, {"w": torch.zeros(2)}]
    average(models, [1, 3])
    assert models[0]["w"].tolist() == [1, 1]


@pytest.mark.parametrize(("start", "expected"), [("none", [8.0, 6.0]), ("initial", [4.0, 4.0])])
def test_the_server_averages_with_the_previous_model(start, expected):
    server = Server({"w": torch.zeros(1)}, previous=0.5, previous_start=start)
    seen = [value(server.aggregate([update(0, v, {0: 1}), update(1, v, {0: 1})])) for v in (8, 4)]
    assert seen == expected
    assert server.round == 2


def test_what_does_not_travel_stays():
    server = Server({"w": torch.zeros(1), "bn.running_mean": torch.zeros(2)})
    model = server.aggregate([update(0, 1, {0: 1}), update(1, 1, {0: 1})])
    assert model["bn.running_mean"].tolist() == [0, 0]


def test_update_counts_its_bytes():
    assert update(0, 1.0, {0: 3, 1: 2}).nbytes == 4 + 8 * 5


def test_what_travels():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    assert set(travelling(model, statistics=False)) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    more = set(travelling(model, statistics=True)) - set(travelling(model, statistics=False))
    assert more == {"1.running_mean", "1.running_var"}


def server(**options):
    return Server({"w": torch.zeros(1)}, **options)


def test_everybody_takes_part_by_default():
    assert server().draw([0, 2, 3], clients=5) == [0, 2, 3]


def test_too_few_clients_make_no_round():
    assert server().draw([3], clients=5) == []
    assert server(min_clients=1).draw([3], clients=5) == [3]


def test_participation_is_a_seeded_draw_of_a_fraction():
    first, again, other = (server(participation=0.3, seed=s) for s in (0, 0, 1))
    rounds = [s_.draw(range(10), 10) for s_ in (first,) for _ in range(50)]
    assert all(len(present) == 3 for present in rounds)
    assert rounds == [again.draw(range(10), 10) for _ in range(50)]
    assert rounds != [other.draw(range(10), 10) for _ in range(50)]
    counts = [sum(k in present for present in rounds) for k in range(10)]
    assert min(counts) > 4


def test_dropout_misses_that_share_of_rounds():
    unreliable = server(dropout=0.3, min_clients=1)
    present = sum(len(unreliable.draw(range(10), 10)) for _ in range(200))
    assert 0.65 < present / 2000 < 0.75


def test_a_server_comes_back_whole():
    first, second = server(participation=0.5), server(participation=0.5)
    first.draw(range(6), 6)
    first.aggregate([update(0, 1, {0: 1}), update(1, 3, {0: 1})])
    second.load_state(first.state())
    assert value(second.model) == 2.0
    assert second.round == 1
    assert first.draw(range(6), 6) == second.draw(range(6), 6)


def test_median_and_trimmed_mean_by_hand():
    updates = [update(k, v, {0: 10 * (k + 1)}) for k, v in enumerate((1.0, 2.0, 4.0, 9.0))]
    assert value(median(updates)) == 3.0
    assert value(trimmed_mean(updates, trim=0.25)) == 3.0
    assert value(trimmed_mean(updates, trim=0.0)) == 4.0
    assert value(trimmed_mean(updates[:1])) == 1.0  # nobody to leave out
    assert value(trimmed_mean(updates[:2], trim=0.4)) == 1.5


def test_krum_by_hand():
    """Of 0, 1, 3, 7, 100 with one bad: n − 3 = 2 neighbours.

    Scores: 0: 1 + 9 = 10; 1: 1 + 4 = 5; 3: 4 + 9 = 13; 7: 16 + 36; 100: 93² + 97².
    """
    updates = [update(k, v, {0: 1}) for k, v in enumerate((0.0, 1.0, 3.0, 7.0, 100.0))]
    assert value(krum(updates)) == 1.0
    # With none bad, three neighbours: 0: 59; 1: 41; 3: 29; 7: 101.
    assert value(krum(updates, bad=0)) == 3.0
    assert value(krum(updates[:1])) == 0.0


def test_geometric_median_by_hand():
    """The corner from which all others are seen under 120° or more; and the crossing diagonals."""
    corners = [(0.0, 0.0), (4.0, 0.0), (0.0, 2.0), (4.0, 2.0)]
    updates = [Update(k, {"w": torch.tensor(c)}, 10**k, {}) for k, c in enumerate(corners)]
    assert torch.allclose(geometric_median(updates)["w"], torch.tensor([2.0, 1.0]), atol=1e-5)
    flat = [(0.0, 0.0), (-5.0, 1.0), (5.0, 1.0)]  # the angle at the first one is larger than 120°
    updates = [Update(k, {"w": torch.tensor(c)}, 1, {}) for k, c in enumerate(flat)]
    assert torch.allclose(geometric_median(updates)["w"], torch.zeros(2), atol=1e-3)


@given(st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=7),
       st.sampled_from([-1e30, -70.0, 1e6, 1e30]))  # fmt: skip
def test_one_bad_client_leaves_krum_and_the_geometric_median_near_the_others(honest, poison):
    updates = [update(k, v, {0: 1}) for k, v in enumerate([*honest, poison])]
    assert value(krum(updates)) in honest
    assert min(honest) - 1e-3 <= value(geometric_median(updates)) <= max(honest) + 1e-3


@given(
    st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=7),
    st.sampled_from([-1e30, -7.0, 0.0, 1e30]),
    st.sampled_from([median, trimmed_mean]),
)
def test_one_party_cannot_pull_the_model_out_of_the_others_range(honest, poison, robust):
    values = [*honest, poison]
    updates = [update(k, v, {0: 1}) for k, v in enumerate(values)]
    assert min(honest) - 1e-4 <= value(robust(updates)) <= max(honest) + 1e-4


@given(st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=6), st.floats(0.1, 10))
def test_a_clipped_update_goes_no_farther_and_in_the_same_direction(values, norm):
    model = {"w": torch.ones(len(values)), "kept": torch.zeros(1)}
    given_ = {"w": torch.tensor(values)}
    way = clipped(given_, model, norm)["w"] - model["w"]
    before = given_["w"] - model["w"]
    assert way.norm() <= norm * 1.001
    assert torch.allclose(way * before.norm(), before * way.norm(), atol=1e-2, rtol=1e-3)
    if before.norm() <= norm:
        assert torch.equal(way, before)


def test_the_server_clips_against_its_own_model():
    server = Server({"w": torch.zeros(1)}, previous=0.0, clip_norm=1.0, min_clients=1)
    server.aggregate([update(0, 100.0, {0: 1})])
    assert value(server.model) == pytest.approx(1.0)
    server.aggregate([update(0, 1.5, {0: 1})])
    assert value(server.model) == pytest.approx(1.5)
