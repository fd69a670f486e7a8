"""The package of examples/plugin: its parts, its contracts, and runs with it that are killed."""

import json
import os
import sys
import time

from safetensors.torch import load_file

from tests.support.deployment import look_less_often
from tests.support.remote import assert_same

FOLDER = "OFCL_TEST_PLUGIN"  # names the folder in the environment
PARTS = ["--model", "two-layers", "--method", "surprised", "--set", "loss=smooth"]
SMALL = ["--dataset", "digits", "--clients", "2", "--tasks", "2", "--limit", "8", "-q", "--json"]
SAVE_OFTEN = ["--set", "checkpoint_every=2"]
CONTRACTS = """
from ofcl.methods import find_method
from ofcl.models import find_model
from ofcl.testing import check_method, check_model, check_score
import ofcl_example
check_model(find_model("two-layers").build)
check_method(find_method("surprised"))
check_method(find_method("cbr", policy="quietest"))
check_score(lambda z: ofcl_example.surprise(z, z.mean(0).argmax(-1)))
"""


def have_plugin():
    """Makes a process that was forked one in whose environment the package is installed."""
    sys.path.insert(0, os.environ[FOLDER])
    look_less_often()


def kill_and_resume(environment, folder, *more):
    """Runs with the parts, kills the run with -9 when it has saved something, and resumes it."""
    out = folder / "killed"
    process = environment.start("run", *SMALL, *PARTS, *SAVE_OFTEN, *more, "--out", out, cwd=folder)
    until = time.monotonic() + 120
    while not list(out.glob("checkpoint/*")) and process.running and time.monotonic() < until:
        time.sleep(0.02)
    process.kill()
    assert not (out / "result.json").exists(), "it was over before it was killed"
    environment.ofcl("resume", out, "-q", "--json", cwd=folder)
    return out


def assert_same_run(one, other):
    """Checks that two runs have ended with the same result and the same model."""
    results = [json.loads((run / "result.json").read_text()) for run in (one, other)]
    assert {**results[0], "seconds": 0} == {**results[1], "seconds": 0}
    assert_same(*(load_file(run / "model.safetensors") for run in (one, other)))
