"""The confusion matrix of the final model says what the clients have counted."""

import json

import numpy as np
import pytest

import ofcl
from ofcl import Run, make_settings
from ofcl.events import Evaluated
from ofcl.report.confusions import confusion_part, read_confusions
from ofcl.report.page import as_html, make_report
from ofcl.report.recorded_runs import read_run
from ofcl.storage.run_directory import RunDirectory
from tests.conftest import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory, blobs):
    """A run that learned little, so that there are confusions."""
    path = tmp_path_factory.mktemp("confusions") / "run"
    ofcl.run(blobs, out=path, **{**TINY, "method": "none"})
    return path


def changed(path, change):
    """Changes the recorded events of a run; gives the run as it is then read."""
    file = path / "events.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        change(event)
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return read_run(RunDirectory(path))


def test_it_is_counted_once_after_the_last_task(blobs):
    events = [e for e in Run(make_settings({**TINY, "method": "er"}), blobs)
              if isinstance(e, Evaluated)]  # fmt: skip
    assert [bool(e.confusions) for e in events] == [e.task == 2 for e in events]
    for event in events[-2:]:
        hits = {c: (right, n) for task in event.global_test for c, right, n in task}
        for c, (right, n) in hits.items():
            row = {predicted: count for true, predicted, count in event.confusions if true == c}
            assert (row.get(c, 0), sum(row.values())) == (right, n)


def test_the_matrix_is_of_all_clients(run, blobs):
    view = read_run(RunDirectory(run))
    matrix = read_confusions(view)
    assert matrix.counts.sum() == len(blobs.y_test)
    assert matrix.counts.sum(axis=1).tolist() == [10] * 6
    right = [hits[1:] for event in view.events_of("evaluated")[-2:]
             for task in event["global_test"] for hits in task]  # fmt: skip
    assert np.trace(matrix.counts) == sum(hits[0] for hits in right)
    assert matrix.shares().sum(axis=1) == pytest.approx(np.ones(6))


def test_classes_are_in_the_order_of_their_tasks(run, blobs):
    view = read_run(RunDirectory(run))
    matrix = read_confusions(view)
    assert matrix.tasks == [0, 0, 1, 1, 2, 2]
    tested = view.events_of("evaluated")[-1]["test"]
    assert matrix.labels == [blobs.labels[c] for task in tested for c, _, _ in task]


def test_with_an_order_for_each_client_they_are_in_the_order_of_their_numbers(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path, **{**TINY, "method": "er"}, task_order="non-overlap")
    matrix = read_confusions(read_run(RunDirectory(tmp_path)))
    assert (matrix.labels, matrix.tasks) == (list(blobs.labels), [])


def test_the_most_frequent_confusions(run):
    part = confusion_part(read_run(RunDirectory(run)))
    matrix = read_confusions(read_run(RunDirectory(run)))
    wrong = {(row, column): n for row, column, n in part.cells if row != column}
    assert 0 < len(part.most.rows) <= 10
    samples = [int(row[2]) for row in part.most.rows]
    assert samples == sorted(wrong.values(), reverse=True)[:10]
    for true, predicted, n, share in part.most.rows:
        cell = matrix.labels.index(true), matrix.labels.index(predicted)
        assert (wrong[cell], share) == (int(n), f"{10 * int(n):.1f}")
    by_class = {row[0]: row[1:] for row in part.drawn.numbers.rows}
    assert by_class.keys() == set(matrix.labels)
    assert all(total == "10" for total, _, _ in by_class.values())


@pytest.mark.filterwarnings("ignore:no round will happen")
def test_runs_without_it_are_shown_without_it(tmp_path, blobs):
    """Runs of earlier versions, runs between parties, and models that have learned nothing."""
    ofcl.run(blobs, out=tmp_path / "older", **{**TINY, "method": "er"})
    assert read_confusions(changed(tmp_path / "older", lambda e: e.pop("confusions", None))) is None
    html = as_html(make_report([tmp_path / "older"]))
    assert "Confusions of the final model" not in html
    assert 'data-name="learned-and-kept"' in html
    alone = {**TINY, "protocol": "sound", "method": "er", "q": 999}  # no round, the initial model
    ofcl.run(blobs, out=tmp_path / "alone", **alone)
    assert read_confusions(read_run(RunDirectory(tmp_path / "alone"))) is None


def test_a_class_that_is_predicted_and_never_tested(run):
    def confuse(event):
        if event.get("confusions"):
            event["confusions"].append([0, 9, 3])

    matrix = read_confusions(changed(run, confuse))
    assert matrix.labels == [*(f"class {c}" for c in range(6)), "class 9"]
    assert matrix.counts[0, 6] == 6  # of two clients
    assert confusion_part(read_run(RunDirectory(run))).drawn.numbers.rows[6][1:] == ["0", "–", "–"]
