"""Flower's simulation engine: real processes of Ray."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.assembly.replaying import read_replay
from ofcl.assembly.stages import LocalStage
from ofcl.buffered import arrivals_of
from ofcl.engines.flower import records as flower_records
from ofcl.engines.flower.records import as_records, from_records
from ofcl.report.memory_samples import view_memories
from ofcl.report.recorded_runs import read_experiments
from tests.support.commands import Command

pytestmark = pytest.mark.xdist_group("simulation")  # two of Ray at once are slow on two cores
pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")

DIGITS = {"protocol": "sound", "dataset": "digits", "clients": 3, "tasks": 3, "method": "bi",
          "memory": 30, "burn_in": 2, "q": 2, "width": 4, "steps": 1, "limit": 6}  # fmt: skip


def test_records_hold_a_state_bit_for_bit():
    state = {"model": {"w": torch.randn(3, 4), "odd": torch.tensor([float("nan"), -0.0, 1e-45])},
             "steps": ["take"], "n": 7, "none": None, "text": "ü"}  # fmt: skip
    back = from_records(as_records(state))
    assert back["model"]["w"].equal(state["model"]["w"])
    assert back["model"]["odd"].numpy().tobytes() == state["model"]["odd"].numpy().tobytes()
    assert {k: v for k, v in back.items() if k != "model"} == {
        k: v for k, v in state.items() if k != "model"
    }


def in_order(events):
    """Events in an order that does not depend on which client was first."""
    return sorted(events, key=lambda event: (type(event).__name__, getattr(event, "client", -1)))


@pytest.mark.long
def test_a_killed_and_resumed_simulation_gives_the_model_of_one_process(tmp_path):
    out = tmp_path / "run"
    sets = [f"--set={name}={value}" for name, value in DIGITS.items()]
    process = Command("run", *sets, "--engine", "flower-sim", "--out", out, "-q", prepare=os.setsid)
    told = out / "events.jsonl"
    until = time.monotonic() + 120
    while time.monotonic() < until and not (told.exists() and told.read_text().count("round") >= 2):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)  # Ray's processes too
    process.wait()
    assert not (out / "result.json").exists()

    local = Run(make_settings(DIGITS))
    events = list(local)
    expected = local.result()
    resumed = Run.resume(out)
    for _ in resumed:
        pass
    result = resumed.result()
    assert expected.rounds > 3
    assert (result.A, result.F, result.rounds) == (expected.A, expected.F, expected.rounds)
    assert result.accuracy == expected.accuracy
    assert in_order(resumed.events) == in_order(events)
    assert resumed.server.model.keys() == local.server.model.keys()
    for name, value in local.server.model.items():
        assert torch.equal(resumed.server.model[name], value), name
    (experiment,) = read_experiments([out])
    memories = view_memories(experiment.runs[0], most=5)
    assert [memory.size for memory in memories] == [30] * 3


def test_what_it_cannot_do_is_refused(blobs):
    with pytest.raises(OfclError, match="stagger is for engine = 'local'"):
        Run(make_settings({**DIGITS, "engine": "flower-sim", "stagger": 2}))
    with pytest.raises(OfclError, match="streams are learned here"):
        ofcl.run(streams=[iter([])], engine="flower-sim")


@pytest.mark.long
def test_a_program_that_fails_in_the_middle_ends():
    few = {**DIGITS, "model": "mlp", "clients": 2, "limit": 2, "engine": "flower-sim"}
    program = (
        "from ofcl import Run, make_settings\n"
        f"for event in Run(make_settings({few})):\n"
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


@pytest.mark.long
def test_buffered_rounds_are_computed_again_in_one_process(tmp_path):
    small = {**DIGITS, "rounds": "buffered", "tasks": 2, "limit": 4, "engine": "flower-sim"}
    simulated = Run(make_settings(small), out=tmp_path / "run")
    events = list(simulated)
    recorded = read_replay(tmp_path / "run")
    again = Run(make_settings(recorded.values({})), stage=LocalStage(replay=recorded))
    replayed = list(again)
    assert len(arrivals_of(events)) > 3
    assert arrivals_of(events) == arrivals_of(replayed)
    for name, value in again.server.model.items():
        assert value.equal(simulated.server.model[name])
