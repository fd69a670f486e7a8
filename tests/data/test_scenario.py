import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofcl import OfclError, build_scenario


def labels(*counts):
    return np.repeat(np.arange(len(counts)), counts)


@given(
    counts=st.lists(st.integers(5, 30), min_size=2, max_size=6),
    clients=st.integers(1, 5),
    tasks=st.integers(1, 2),
    seed=st.integers(0, 5),
    options=st.fixed_dictionaries(
        {
            "task_order": st.sampled_from(["overlap", "non-overlap"]),
            "class_order": st.sampled_from(["random", "released", "size"]),
            "remainder": st.sampled_from(["deal", "drop"]),
            "class_split": st.sampled_from(["even", "floor"]),
            "validation": st.sampled_from([0.0, 0.05, 0.3]),
        }
    ),
)
def test_nothing_is_dealt_twice_and_classes_are_where_they_belong(
    counts, clients, tasks, seed, options
):
    y_train, y_test = labels(*counts), labels(*(c // 2 for c in counts))
    try:
        shares = build_scenario(
            y_train, y_test, len(counts), seed=seed, clients=clients, tasks=tasks, **options
        )
    except OfclError as error:
        assert "without data" in str(error)
        return
    train = [row for share in shares for rows in (*share.train, *share.validation) for row in rows]
    test = [row for share in shares for rows in share.test for row in rows]
    assert len(set(train)) == len(train)
    assert len(set(test)) == len(test)
    for share in shares:
        classes = [c for task in share.tasks for c in task]
        assert len(share.tasks) == tasks
        assert len(set(classes)) == len(classes)
        for task, rows, tests in zip(share.tasks, share.train, share.test, strict=True):
            assert set(y_train[rows]) <= set(task)
            assert set(y_test[tests]) <= set(task)
    if options["remainder"] == "deal" and options["class_split"] == "even":
        assert len(train) == len(y_train)
        assert len(test) == len(y_test)


def test_even_shares_differ_by_at_most_one_sample_over_all_classes():
    y = labels(7, 7, 7)
    shares = build_scenario(y, y, 3, seed=0, clients=5, tasks=3, validation=0.0)
    sizes = [sum(map(len, share.train)) for share in shares]
    assert sorted(sizes) == [4, 4, 4, 4, 5]


def test_overlap_is_one_order_for_all_and_non_overlap_one_for_each():
    y = labels(*[20] * 10)
    same = build_scenario(y, y, 10, seed=0, clients=4, task_order="overlap")
    each = build_scenario(y, y, 10, seed=0, clients=4, task_order="non-overlap")
    assert len({share.tasks for share in same}) == 1
    assert len({share.tasks for share in each}) == 4


def test_another_seed_gives_another_order_and_another_split():
    y = labels(*[20] * 10)
    first, second = (build_scenario(y, y, 10, seed=seed)[0] for seed in (0, 1))
    again = build_scenario(y, y, 10, seed=0)[0]
    assert first.tasks == again.tasks != second.tasks
    assert all(np.array_equal(a, b) for a, b in zip(first.train, again.train, strict=True))


def test_by_falling_size():
    y = labels(10, 30, 20, 40)
    shares = build_scenario(y, y, 4, seed=0, clients=2, tasks=2, class_order="size")
    assert shares[0].tasks == ((3, 1), (2, 0))


@pytest.mark.parametrize(
    ("seed", "task_order", "client", "classes"),
    [  # numpy.random.seed(n), then shuffle(arange(10)): n = run, or (run + 1) * (client + 1)
        (0, "overlap", 3, (2, 8, 4, 9, 1, 6, 7, 3, 0, 5)),
        (1, "overlap", 0, (2, 9, 6, 4, 0, 3, 1, 7, 8, 5)),
        (0, "non-overlap", 0, (2, 9, 6, 4, 0, 3, 1, 7, 8, 5)),
        (1, "non-overlap", 2, (8, 1, 7, 0, 6, 5, 2, 4, 3, 9)),
    ],
)
def test_the_papers_runs_have_their_own_order_of_classes(seed, task_order, client, classes):
    y = labels(*[20] * 10)
    shares = build_scenario(
        y, y, 10, seed=seed, clients=4, class_order="released", task_order=task_order
    )
    assert sum(shares[client].tasks, ()) == classes


def test_dirichlet_splits_test_data_like_train():
    y_train, y_test = labels(*[1000] * 4), labels(*[500] * 4)
    shares = build_scenario(
        y_train, y_test, 4, seed=1, clients=4, tasks=2, split="dirichlet", alpha=0.3,
        validation=0.0)  # fmt: skip
    sizes = np.array([[len(r) for r in s.train] for s in shares])
    tests = np.array([[len(r) for r in s.test] for s in shares])
    assert sizes.std() > 100
    assert np.abs(sizes / 2 - tests).max() <= 2


def test_a_client_without_data_is_an_error():
    y = labels(3, 3)
    with pytest.raises(OfclError, match="leaves 2 of 8 clients without data"):
        build_scenario(y, y, 2, seed=0, clients=8, tasks=2, validation=0.0)


def test_more_tasks_than_classes_is_an_error():
    with pytest.raises(OfclError, match="3 tasks need at least 3 classes, but there are 2"):
        build_scenario(labels(9, 9), labels(9, 9), 2, seed=0, clients=1, tasks=3)


def test_blurry_tasks_leak_into_their_neighbours_and_nowhere_else():
    y = labels(100, 100, 100)
    options = {"seed": 0, "clients": 1, "tasks": 3, "validation": 0.0}
    (sharp,) = build_scenario(y, y, 3, **options)
    (share,) = build_scenario(y, y, 3, **options, blurry=0.2)
    assert share.tasks == sharp.tasks
    counts = [[int((y[rows] == task[0]).sum()) for task in share.tasks] for rows in share.train]
    assert counts == [[80, 10, 0], [20, 80, 20], [0, 10, 80]]
    assert sorted(np.concatenate(share.train)) == list(range(300))  # all of it, each once
    for blurred, whole in zip(share.test, sharp.test, strict=True):
        assert np.array_equal(blurred, whole)  # tested as ever


def test_a_long_tail():
    y = labels(*[100] * 5)
    shares = build_scenario(y, y, 5, seed=3, clients=1, tasks=5, validation=0.0, imbalance=100)
    counts = [len(rows) for share in shares for rows in share.train]
    assert sorted(counts) == [1, 3, 10, 32, 100]
    assert all(len(rows) == 100 for share in shares for rows in share.test)
    other = build_scenario(y, y, 5, seed=4, clients=1, tasks=5, validation=0.0, imbalance=100)
    assert [len(rows) for share in other for rows in share.train] != counts


def test_validation_leaves_every_class_something_to_learn():
    y = np.array([0] * 20 + [1])
    (share,) = build_scenario(y, y, 2, seed=0, clients=1, tasks=2, validation=0.05)
    learned = np.concatenate(share.train)
    assert (y[learned] == 1).sum() == 1
    assert sum(len(rows) for rows in share.validation) == 1


def test_validation_data_of_their_own_leave_train_whole():
    y, y_validation = labels(10, 10), labels(4, 6)
    shares = build_scenario(
        y, y, 2, y_validation=y_validation, seed=0, clients=2, tasks=2, validation=0.5
    )
    assert sum(len(rows) for share in shares for rows in share.train) == 20
    rows = np.concatenate([rows for share in shares for rows in share.validation])
    assert sorted(rows) == list(range(10))
