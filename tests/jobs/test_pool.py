"""Worker processes, with a quick stand-in for the worker where it proves the same."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from ofcl import OfclError, make_settings
from ofcl.jobs.machine import worker_environment
from ofcl.jobs.making import make_all
from ofcl.jobs.pool import Pool
from ofcl.jobs.work import Ended, Progress, Work, work_from

# A worker without PyTorch: the name of the run directory says how its run ends.
QUICK = """
import json, os, sys, time
for line in sys.stdin:
    order = json.loads(line)
    if "stop" in order:
        continue
    name = os.path.basename(order["path"])
    with open(order["path"], "a") as file:
        file.write(f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n")
    if name.startswith("crash"):
        print("out of luck", file=sys.stderr)
        os._exit(7)
    if name.startswith("long"):
        while "stop" not in json.loads(sys.stdin.readline()):
            pass
        print(json.dumps({"Ended": {"outcome": "stopped"}}), flush=True)
        continue
    progress = {"batches": 1, "all_batches": 2, "task": 0, "tasks": 1, "ended": 0}
    print(json.dumps({"Progress": progress}), flush=True)
    print(json.dumps({"Ended": {"outcome": "failed" if "bad" in name else "finished",
                                "message": name}}), flush=True)
"""


def quick_pool(workers, gpus=()):
    return Pool(workers, list(gpus), command=(sys.executable, "-c", QUICK))


def works(folder, *names):
    return [Work(folder / name, make_settings({})) for name in names]


def test_one_failure_does_not_end_the_others(tmp_path):
    wanted = works(tmp_path, "a", "crash", "bad", "b", "c")
    with quick_pool(2) as pool:
        heard = list(make_all(wanted, pool, threading.Event()))
    ends = {w.path.name: r for w, r in heard if isinstance(r, Ended)}
    assert {name: end.outcome for name, end in ends.items()} == {
        "a": "finished", "crash": "failed", "bad": "failed", "b": "finished", "c": "finished"
    }  # fmt: skip
    assert ends["crash"].message == "its process has ended with 7: out of luck"
    assert sum(isinstance(report, Progress) for _, report in heard) == 4


def test_each_worker_has_its_gpu_and_one_run_at_a_time(tmp_path):
    wanted = works(tmp_path, "long1", "long2", "long3")
    with quick_pool(3, ["4", "6"]) as pool:
        for work in wanted:
            assert pool.free
            pool.start(work)
        assert not pool.free
        with pytest.raises(OfclError, match="all 3 workers are busy"):
            pool.start(works(tmp_path, "d")[0])
        pool.stop(wanted[1])
        stopped = [(w, r) for w, r in pool.reports(20)]
        assert stopped == [(wanted[1], Ended("stopped"))]
        assert pool.busy == [wanted[0], wanted[2]]
    lines = [work.path.read_text().split() for work in wanted]
    assert [gpu for _, gpu in lines] == ["4", "6", "4"]
    assert len({process for process, _ in lines}) == 3


def test_a_stop_reaches_all_and_begins_no_more(tmp_path):
    stop, wanted = threading.Event(), works(tmp_path, "long1", "long2", "never")
    with quick_pool(2) as pool:
        making = make_all(wanted, pool, stop)
        until = time.monotonic() + 30
        stop_later = threading.Thread(target=lambda: (wait_for(wanted[1].path, until), stop.set()))
        stop_later.start()
        ends = [(work.path.name, report.outcome) for work, report in making]
        stop_later.join()
    assert sorted(ends) == [("long1", "stopped"), ("long2", "stopped")]
    assert not wanted[2].path.exists()


def wait_for(path: Path, until: float):
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)


def test_workers_that_are_not_stopped_end_with_the_pool(tmp_path):
    (work,) = works(tmp_path, "long1")
    pool = quick_pool(1)
    pool.start(work)
    wait_for(work.path, time.monotonic() + 30)
    while not work.path.read_text():
        time.sleep(0.01)
    process = int(work.path.read_text().split()[0])
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_cores_are_shared_and_what_the_user_has_set_stays():
    assert worker_environment(0, 3, ["0"], 8, {}) == {"OMP_NUM_THREADS": "2"}
    assert worker_environment(1, 9, [], 8, {"OMP_NUM_THREADS": "3"}) == {"OMP_NUM_THREADS": "3"}
    both = worker_environment(2, 2, ["a", "b"], 8, {})
    assert both == {"OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "a"}


def test_work_travels_as_it_is():
    import json

    settings = make_settings({"dataset": "digits", "lr": 0.1, "perturbations": [1, 2]})
    work = Work(Path("a/b"), settings.model_copy(update={"seed": 3}))
    again = work_from(json.loads(work.to_line()))
    assert again.path == work.path
    assert again.settings == work.settings
    assert ("tasks" in again.settings.model_fields_set) == ("tasks" in settings.model_fields_set)
