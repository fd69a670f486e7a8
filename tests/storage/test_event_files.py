"""Events of a run without end are put aside and summed up; nothing of its result is lost."""

import pytest

import ofcl
from ofcl import Run, make_settings
from ofcl.report.recorded_runs import read_run
from ofcl.storage import event_files
from ofcl.storage.atomic_files import write_whole
from ofcl.storage.run_directory import RunDirectory
from tests.assembly.test_streams import TINY, reopened

STREAMS = [reopened(0), reopened(1, n=50)]
MADE = make_settings({**TINY, "checkpoint_every": 7})


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The result of a run whose events are all in one file."""
    out = tmp_path_factory.mktemp("plain") / "run"
    for _ in Run(MADE, out=out, streams=STREAMS):
        pass
    return RunDirectory(out)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(event_files, "LARGE", 1500)
    monkeypatch.setattr(event_files, "KEPT", 1)


def same(one, other):
    one, other = one.to_json(), other.to_json()
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize("stop_after", [None, 13, 52, 80])
def test_a_run_with_many_files_ends_like_one_with_one_file(tmp_path, plain, small, stop_after):
    out = tmp_path / "run"
    for n, _ in enumerate(Run(MADE, out=out, streams=STREAMS), 1):
        if n == stop_after:
            break  # like a kill: nothing is saved on the way out
    if stop_after:
        ofcl.resume(out, streams=STREAMS)
    same(RunDirectory(out).result(), plain.result())
    assert len(list(out.glob("events.*"))) <= 1 + event_files.KEPT + 1
    earlier, kept = RunDirectory(out).earlier_events(), RunDirectory(out).events()
    assert earlier.count > 20
    whole = [{**event, "seconds": 0} for event in plain.events()]
    assert [{**event, "seconds": 0} for event in kept] == whole[earlier.count :]
    (out / "result.json").unlink()
    same(read_run(RunDirectory(out)).result, plain.result())  # from the sums and the events


def test_a_kill_while_a_file_is_summed_up_counts_nothing_twice(tmp_path, plain, small, monkeypatch):
    def killed(path, text):
        write_whole(path, text)
        raise KeyboardInterrupt

    out = tmp_path / "run"
    monkeypatch.setattr(event_files, "write_whole", killed)
    with pytest.raises(KeyboardInterrupt):
        for _ in Run(MADE, out=out, streams=STREAMS):
            pass
    monkeypatch.undo()
    ofcl.resume(out, streams=STREAMS)
    same(RunDirectory(out).result(), plain.result())


def test_runs_over_datasets_keep_all_their_events(tmp_path, small):
    run = Run(make_settings({"dataset": "digits", "memory": 20, "tasks": 2, "clients": 2,
                             "model": "mlp", "hidden": 4, "limit": 10, "checkpoint_every": 4}),
              out=tmp_path / "run")  # fmt: skip
    for _ in run:
        pass
    (only,) = (tmp_path / "run").glob("events*")
    assert only.stat().st_size > 2 * event_files.LARGE
