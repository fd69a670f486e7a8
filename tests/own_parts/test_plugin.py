"""A package outside the tree: installed, checked, run on every engine, killed and resumed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.plugin import ROOT, install_plugin

PARTS = ["--model", "two-layers", "--method", "surprised", "--set", "loss=smooth"]
SMALL = ["--dataset", "digits", "--clients", "2", "--tasks", "2", "--limit", "8", "-q", "--json"]
CHECKS = """
from ofcl.methods import find_method
from ofcl.models import find_model
from ofcl.testing import check_method, check_model, check_score
import ofcl_example
check_model(find_model("two-layers").build)
check_method(find_method("surprised"))
check_method(find_method("cbr", policy="quietest"))
check_score(lambda z: ofcl_example.surprise(z, z.mean(0).argmax(-1)))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a process in which the package is installed, into a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    install_plugin(folder)
    path = os.pathsep.join([str(folder), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def ofcl(environment, *arguments, **how):
    command = [sys.executable, "-c", "from ofcl.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, **how)


def test_it_keeps_the_contracts(environment):
    subprocess.run([sys.executable, "-c", CHECKS], env=environment, check=True)


def test_it_is_listed_with_its_package(environment):
    words = " ".join(ofcl(environment, "list", "models").stdout.split())
    assert "two-layers from ofcl-example-plugin 0.1.0" in words


@pytest.mark.long
def test_a_killed_run_is_resumed_to_the_same_result(environment, tmp_path):
    whole = ofcl(environment, "run", *SMALL, *PARTS, "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    saving = ["--set", "checkpoint_every=2", "--out", str(tmp_path / "killed")]
    command = [sys.executable, "-c", "from ofcl.cli.main import main; main()", "run"]
    command += [*SMALL, *PARTS, *saving]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    until = time.monotonic() + 60
    while not list(tmp_path.glob("killed/checkpoint/*")) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    again = ofcl(environment, "resume", tmp_path / "killed", "-q", "--json")
    assert again.returncode == 0, again.stderr
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]
    answers = ofcl(environment, "evaluate", tmp_path / "killed")
    assert answers.returncode == 0, answers.stderr


@pytest.mark.long
def test_processes_of_the_simulation_have_the_parts_too(environment, tmp_path):
    there = ofcl(
        environment, "run", *SMALL, *PARTS, "--engine", "flower-sim", "--out", tmp_path / "a"
    )
    assert there.returncode == 0, there.stderr
    assert (tmp_path / "a" / "model.safetensors").exists()
