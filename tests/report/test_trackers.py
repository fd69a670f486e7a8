"""Trackers, each read back from what it has written."""

import json
import time

import pytest

from ofcl import OfclError, Run, make_settings
from ofcl.cli import run_loop
from ofcl.cli.logs import log_to_terminal
from ofcl.cli.run_loop import drive
from ofcl.events import Evaluated, Learned, Round, TaskEnded
from ofcl.report import trackers
from ofcl.report.tracked_numbers import END, Meter
from ofcl.report.trackers import check_trackers
from tests.conftest import TINY

pytestmark = pytest.mark.xdist_group("trackers")  # MLflow takes seconds to import
VALUES = {**TINY, "method": "er"}


def expected(events):
    """What is to be logged: (name, step, value), in order."""
    meter, numbers = Meter(), []
    for event in events:
        numbers += [(name, meter.step, value) for name, value in meter.add(event).items()]
    return numbers


def test_a_meter_says_how_the_stream_went_since_it_was_last_asked():
    meter = Meter()
    assert meter.add(Learned(0, 0, 1, 4, loss=2.0, correct=1)) == {}
    assert meter.add(Learned(1, 0, 1, 4, loss=6.0, correct=3)) == {}
    assert meter.add(Round(1, [0, 1], [4, 4], 10, 20)) == {
        "stream/loss": 1.0, "stream/accuracy": 50.0, "rounds": 1.0, "bytes_sent": 10.0,
        "bytes_received": 20.0,
    }  # fmt: skip
    assert meter.step == 2
    assert meter.add(Evaluated(1, 1, [[[0, 3, 4]], [[1, 1, 4]]], [], [])) == {
        "client 1/task 0": 75.0, "client 1/task 1": 25.0, "client 1/accuracy": 50.0,
    }  # fmt: skip
    assert meter.add(Round(2, [0, 1], [4, 4], 10, 20))["bytes_sent"] == 20.0
    assert meter.add(TaskEnded(0, 5)) == {"bytes_received": 45.0}
    assert meter.add(Round(3, [0, 1], [4, 4], 10, 20))["bytes_received"] == 65.0


def tracked(tmp_path, blobs, name, stop_after=None):
    """A run with a tracker; with `stop_after` it is killed there, behind its checkpoint."""
    made = make_settings({**VALUES, "checkpoint_every": 15})
    run = Run(made, blobs, tmp_path / "run")
    if stop_after is None:
        return run, drive(run, True, [name])

    class Stop(Exception):
        pass

    class Stopping(Run):
        def __iter__(self):
            for n, event in enumerate(super().__iter__()):
                yield event
                if n == stop_after:
                    raise Stop

    run.__class__ = Stopping
    with pytest.raises(Stop):
        drive(run, True, [name])
    run = Run.resume(tmp_path / "run", blobs)
    return run, drive(run, True, [name])


def in_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {name: [(s.step, s.value) for s in found.Scalars(name)]
            for name in found.Tags()["scalars"]}  # fmt: skip


def in_mlflow(run, store=None):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(store)
    name = json.loads((run.directory.path / "tracked.json").read_text())["mlflow"]
    found = client.get_run(name)
    return found, {key: [(m.step, m.value) for m in client.get_metric_history(name, key)]
                   for key in found.data.metrics}  # fmt: skip


def wandb_records(path):
    """The records of an offline run's file: a log of LevelDB's form, with a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    content, place, whole, found = path.read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # the whole of a record, or its last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            found.append(record)
            whole = b""
    return found


def whole_wandb_records(path):
    """The same when the run's last record is there: another process writes it, perhaps later."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        records = wandb_records(path)
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            return records
        time.sleep(0.05)
    raise AssertionError(f"{path} has no end")


def in_wandb(folder):
    numbers = {}
    for path in folder.glob("wandb/offline-run-*/*.wandb"):
        for record in whole_wandb_records(path):
            if record.WhichOneof("record_type") == "history":
                for item in record.history.item:
                    key = item.key or "/".join(item.nested_key)
                    if not key.startswith("_"):
                        row = (record.history.step.num, float(json.loads(item.value_json)))
                        numbers.setdefault(key, []).append(row)
    return numbers


def check(numbers, run, result):
    """Everything that was to be logged was, at its step, and the result at the end."""
    wanted = expected(run.events)
    assert len(wanted) > 20
    for name in {name for name, _, _ in wanted}:
        rows = [(step, pytest.approx(value, rel=1e-5)) for n, step, value in wanted if n == name]
        assert numbers[name] == rows  # each once
    for name in END:
        if (value := getattr(result, name)) is not None:
            assert numbers[name][-1][1] == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("stop_after", [None, 40])
def test_tensorboard(tmp_path, blobs, stop_after):
    run, result = tracked(tmp_path, blobs, "tensorboard", stop_after)
    check(in_tensorboard(tmp_path / "run" / "tensorboard"), run, result)


@pytest.mark.parametrize("stop_after", [None, 40])
def test_mlflow_in_a_local_store(tmp_path, blobs, monkeypatch, stop_after):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/store.db")
    run, result = tracked(tmp_path, blobs, "mlflow", stop_after)
    found, numbers = in_mlflow(run)
    check(numbers, run, result)
    assert found.data.params["method"] == "er"
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "run"


def test_wandb_offline(tmp_path, blobs, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    run, result = tracked(tmp_path, blobs, "wandb")
    check(in_wandb(tmp_path / "run"), run, result)


def test_a_tracker_that_fails_does_not_stop_the_run(tmp_path, blobs, monkeypatch, capsys):
    log_to_terminal()

    class Broken:
        def __init__(self, run, settings, step):
            pass

        def log(self, numbers, step):
            raise ConnectionError("the server is gone")

        def close(self, failed):
            raise AssertionError("it was left out")

    monkeypatch.setitem(trackers.TRACKERS, "wandb", Broken)
    run = Run(make_settings(VALUES), blobs, tmp_path / "run")
    assert drive(run, True, ["wandb"]).A is not None
    assert "the run goes on without it: the server is gone" in capsys.readouterr().err


def test_a_tracker_that_cannot_be_opened_is_left_out(tmp_path, blobs, monkeypatch, capsys):
    log_to_terminal()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://at.all")
    run = Run(make_settings(VALUES), blobs, tmp_path / "run")
    assert drive(run, True, ["mlflow", "tensorboard"]).A is not None
    assert "mlflow cannot be used, and the run goes on without it" in capsys.readouterr().err
    assert "A" in in_tensorboard(tmp_path / "run" / "tensorboard")


def test_mlflow_is_told_that_a_run_was_stopped_and_its_store_is_found_again(
    tmp_path, blobs, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run = Run(make_settings({**VALUES, "checkpoint_every": 1}), blobs, tmp_path / "run")

    def stopped():
        with run_loop.tracked(run, ["mlflow"]) as opened:
            for n, event in enumerate(run):
                opened.show(event)
                if n == 20:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    store = json.loads((tmp_path / "run" / "tracked.json").read_text())["mlflow_uri"]
    assert store == f"sqlite:///{tmp_path}/mlflow.db"
    assert in_mlflow(run, store)[0].info.status == "KILLED"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resumed = Run.resume(tmp_path / "run", blobs)
    result = drive(resumed, True, ["mlflow"])
    assert not (tmp_path / "elsewhere" / "mlflow.db").exists()
    found, numbers = in_mlflow(resumed, store)
    assert found.info.status == "FINISHED"
    check(numbers, resumed, result)


def test_what_is_no_tracker_or_not_installed_is_refused(monkeypatch):
    with pytest.raises(OfclError, match="unknown tracker 'tensorbord'.*Did you mean 'tensorboard'"):
        check_trackers(["tensorbord"])
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OfclError, match=r"pip install 'ofcl\[mlflow\]'"):
        check_trackers(["mlflow"])
