"""A run killed with -9 at random moments and resumed ends bit for bit like one that was not."""

import json
import random
import time

import pytest
from safetensors.torch import load_file

from tests.support.commands import Command, in_one_process, ofcl

pytestmark = in_one_process
KILLS = 5  # for each of the four runs below: twenty in all

SETTINGS = ["--dataset", "digits", "--memory", "30", "--clients", "3", "--set", "model=mlp",
            "--set", "hidden=32", "--set", "burn_in=2", "--set", "batch_size=3", "--set", "q=3",
            "--set", "checkpoint_every=25", "-q"]  # fmt: skip

RUNS = {
    "bi, sound": ["--method", "bi", "--seed", "1"],
    "bi, published": ["--method", "bi", "--protocol", "published", "--seed", "2"],
    "er, dropout": ["--method", "er", "--set", "dropout=0.3", "--seed", "3"],
    "cbr, fedprox": ["--method", "cbr", "--aggregation", "fedprox", "--seed", "4"],
}

OFTEN = ("bi, sound", "er, dropout")  # the others are tried by `make test-long`


def kill_somewhere(command, events, draw):
    """Waits until the command has written some more events, and a moment longer; then -9."""
    wanted = (events.stat().st_size if events.exists() else 0) + draw.randrange(200, 9000)
    while command.running and (not events.exists() or events.stat().st_size < wanted):
        time.sleep(0.001)
    time.sleep(draw.random() * 0.02)
    if not command.running:
        return False  # it had come to its end
    command.kill()
    return True


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in OFTEN else [pytest.mark.long]) for n in RUNS],
)
def test_killed_anywhere(tmp_path, name):
    draw = random.Random(name)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    code, _, err = ofcl("run", *RUNS[name], *SETTINGS, "--out", whole)
    assert code == 0, err
    command, kills = Command("run", *RUNS[name], *SETTINGS, "--out", broken), 0
    for _ in range(KILLS):
        if not kill_somewhere(command, broken / "events.jsonl", draw):
            break
        kills += 1
        command = Command("resume", broken, "-q")
    code, _, err = command.wait()
    assert code == 0, err
    assert kills == KILLS, "the run was over too soon to be killed"
    first, second = (json.loads((d / "result.json").read_text()) for d in (whole, broken))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    models = [load_file(d / "model.safetensors") for d in (whole, broken)]
    assert all(value.equal(models[1][key]) for key, value in models[0].items())
