"""Several runs at once, killed with -9: no worker is left, and the next start goes on with them."""

import json
import os
import time

from safetensors.torch import load_file

from ofcl.jobs import tally  # noqa: F401  # the room is imported before processes are forked
from tests.support.commands import Command, in_one_process, ofcl

pytestmark = in_one_process

SMALL = ["--dataset", "digits", "--memory", "30", "--clients", "2", "--set", "model=mlp", "--set",
         "hidden=16", "--set", "burn_in=2", "--set", "batch_size=3", "--set", "limit=20", "--set",
         "checkpoint_every=20", "--seeds", "0,1", "-q"]  # fmt: skip


def workers_of(pid):
    """The processes that a process has started."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(name))
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_killed_with_its_workers_it_goes_on_bit_for_bit(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    code, _, err = ofcl("run", *SMALL, "--out", whole)
    assert code == 0, err
    command = Command("run", *SMALL, "--jobs", "2", "--out", broken)
    until = time.monotonic() + 60
    while not all(any((broken / f"seed{n}" / "checkpoint").glob("0*")) for n in (0, 1)):
        assert command.running, command.wait()
        assert time.monotonic() < until
        time.sleep(0.002)
    workers = workers_of(command.pid)
    assert len(workers) == 2
    command.kill()
    until = time.monotonic() + 10
    while any(map(alive, workers)):
        assert time.monotonic() < until, "a worker has outlived its command"
        time.sleep(0.005)
    cut = [n for n in (0, 1) if not (broken / f"seed{n}" / "result.json").exists()]
    assert cut, "the runs were over too soon to be killed"
    code, _, err = ofcl(
        "run", *SMALL, "--out", broken
    )  # one after the other goes on with them, too
    assert code == 0, err
    for n in (0, 1):
        runs = [folder / f"seed{n}" for folder in (whole, broken)]
        first, second = (json.loads((run / "result.json").read_text()) for run in runs)
        assert {**first, "seconds": 0} == {**second, "seconds": 0}
        models = [load_file(run / "model.safetensors") for run in runs]
        assert all(value.equal(models[1][key]) for key, value in models[0].items())
    resumed = [(broken / f"seed{n}" / "events.jsonl").read_text().count("resumed") for n in cut]
    assert resumed == [1] * len(cut)
