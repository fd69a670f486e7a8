"""Flower's simulation engine: real processes of Ray (what it learns: test_deployment.py)."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.engines.flower import records as flower_records
from ofcl.engines.flower.records import as_records, from_records
from ofcl.events import Learned

pytestmark = pytest.mark.xdist_group("flower")  # two of Ray at once are slow on two cores
pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")

DIGITS = {"dataset": "digits", "clients": 3, "tasks": 3, "method": "bi", "memory": 30, "burn_in": 2,
          "q": 2, "width": 4, "limit": 6}  # fmt: skip


def test_records_hold_a_state_bit_for_bit():
    state = {"model": {"w": torch.randn(3, 4), "odd": torch.tensor([float("nan"), -0.0, 1e-45])},
             "steps": ["take"], "n": 7, "none": None, "text": "ü"}  # fmt: skip
    back = from_records(as_records(state))
    assert back["model"]["w"].equal(state["model"]["w"])
    assert back["model"]["odd"].numpy().tobytes() == state["model"]["odd"].numpy().tobytes()
    assert {k: v for k, v in back.items() if k != "model"} == {
        k: v for k, v in state.items() if k != "model"
    }


@pytest.fixture(scope="module")
def here():
    run = Run(make_settings(DIGITS))
    return run, list(run)


def test_a_killed_simulation_is_resumed_as_if_nothing_had_happened(tmp_path, here):
    local, events = here
    sets = [f"--set={name}={value}" for name, value in DIGITS.items()]
    command = [sys.executable, "-m", "ofcl.cli.main", "run", *sets, "--engine", "flower-sim",
               "--out", str(tmp_path / "run"), "-q"]  # fmt: skip
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"},
                               start_new_session=True)  # fmt: skip
    told = tmp_path / "run" / "events.jsonl"
    until = time.monotonic() + 120
    while time.monotonic() < until and not (told.exists() and told.read_text().count("round") >= 2):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)  # Ray's processes too
    process.wait()
    assert not (tmp_path / "run" / "result.json").exists()
    result = ofcl.resume(tmp_path / "run")
    assert (result.A, result.F) == (local.result().A, local.result().F)
    assert result.rounds == local.result().rounds
    learned = sum(part["batches"] for part in result.anytime)
    assert learned == sum(event.batches for event in events if isinstance(event, Learned))


def test_what_it_cannot_do_is_refused(blobs):
    with pytest.raises(OfclError, match="stagger is for engine = 'local'"):
        Run(make_settings({**DIGITS, "engine": "flower-sim", "stagger": 2}))
    with pytest.raises(OfclError, match="streams are learned here"):
        ofcl.run(streams=[iter([])], engine="flower-sim")


def test_a_program_that_fails_in_the_middle_ends():
    program = (
        "from ofcl import Run, make_settings\n"
        f"for event in Run(make_settings({ {**DIGITS, 'engine': 'flower-sim'} })):\n"
        "    raise ValueError('a mistake of the caller')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert "a mistake of the caller" in done.stderr
    assert done.returncode == 1


def test_without_flower_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(OfclError, match=r"pip install 'ofcl\[flower\]'"):
        flower_records.check_flower()
