"""The matrix of cross-site validation: its means, holes, and the events that it is made of."""

import io

from rich.console import Console

from ofcl.cli.show import print_cross_site
from ofcl.evaluation.cross_matrix import CrossMatrix
from ofcl.evaluation.results import Summary, summarise
from ofcl.events import CrossTested, from_json, to_json

EVENTS = [
    CrossTested(-1, [0, 1, 2], [9, 8, 3], [10, 20, 5]),
    CrossTested(0, [0, 1], [10, 12], [10, 20]),  # client 2 has died
    CrossTested(2, [0, 1], [5, 14], [10, 20]),
]


def result_of(events):
    return summarise(events, clients=3, tasks=1, seconds=0.0)


def test_a_result_has_the_matrix_of_its_events_in_any_order():
    rows = result_of(EVENTS[::-1]).cross_site
    assert rows == [
        {"model": None, "clients": [0, 1, 2], "accuracy": [90.0, 40.0, 60.0],
         "samples": [10, 20, 5]},
        {"model": 0, "clients": [0, 1], "accuracy": [100.0, 60.0], "samples": [10, 20]},
        {"model": 2, "clients": [0, 1], "accuracy": [50.0, 70.0], "samples": [10, 20]},
    ]  # fmt: skip
    assert result_of([]).cross_site == []
    nobody = result_of([CrossTested(0, [1], [0], [0])]).cross_site
    assert nobody[0]["accuracy"] == [None]


def test_the_sums_of_earlier_events_keep_it():
    summary = Summary()
    for event in EVENTS:
        assert from_json(to_json(event)) == event
        summary.add(event)
    again = Summary.from_state(summary.state())
    one, other = (s.result(clients=3, tasks=1, seconds=0.0) for s in (summary, again))
    assert one.cross_site == other.cross_site != []


def test_means_leave_out_a_clients_own_and_what_was_not_tested():
    matrix = CrossMatrix(result_of(EVENTS).cross_site)
    assert (matrix.models, matrix.clients) == ([None, 0, 2], [0, 1, 2])
    assert matrix.samples == {0: 10, 1: 20, 2: 5}
    assert matrix.accuracy(2, 2) is None
    assert [matrix.elsewhere(model) for model in (0, 2)] == [60.0, 60.0]
    assert [matrix.of_others(client) for client in range(3)] == [50.0, 65.0, None]


def test_the_table_names_models_and_data():
    console = Console(file=io.StringIO(), width=100)
    print_cross_site(console, result_of(EVENTS), ["a", "b", "c"])
    text = console.file.getvalue().splitlines()
    lines = [" ".join(line.split()) for line in text if line.strip()]
    assert lines[0].startswith("cross-site validation: accuracy of each model")
    assert lines[1:] == [
        "model a (10) b (20) c (5) mean elsewhere",
        lines[2],  # a rule
        "global 90.00 40.00 60.00",
        "a 100.00 60.00 – 60.00",
        "c 50.00 70.00 – 60.00",
        "mean of others 50.00 65.00 –",
    ]
    console = Console(file=io.StringIO())
    print_cross_site(console, result_of([]), ["a"])
    assert console.file.getvalue() == ""
