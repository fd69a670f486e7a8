"""Masked updates between real processes: the plain model, and a server that holds sums alone."""

import re
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ofcl import Run, make_settings
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.run_directory import RunDirectory
from tests.support.deployment import (
    LONG,
    PARTIES,
    Deployment,
    learned_of,
    rounds_of,
    settings_file,
)

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = pytest.mark.xdist_group("deployment")  # two cores are not many for two federations

SETTINGS = {"protocol": "sound", "dataset": "digits", "clients": 3, "tasks": 1, "method": "er",
            "memory": 40, "model": "mlp", "hidden": 32, "burn_in": 0, "q": 5, "min_clients": 3,
            "limit": 30}  # fmt: skip


def memory_of(process):
    """All that a process has in memory, as one piece of bytes after the other."""
    with open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if found is None or "[v" in line:
                continue
            first, last = (int(place, 16) for place in found.groups())
            try:
                memory.seek(first)
                yield memory.read(last - first)
            except OSError:
                continue


def holds(process, piece):
    return any(piece in part for part in memory_of(process))


def saved_at(deployment, name):
    """The update that a party keeps for a sum; None if it has none now."""
    (folder,) = (deployment.folder / name / "runs").iterdir()
    return load_checkpoint(folder, lambda _: None).state.get("held")


def piece_of(state):
    """Forty numbers in the middle of the first layer: no other model has the same."""
    (name, *_) = [name for name in state if name.endswith("weight")]
    return state[name].flatten()[400:440].numpy().tobytes()


def test_masked_updates_give_the_plain_model_and_the_server_holds_none_of_them(tmp_path):
    plain = Run(make_settings(SETTINGS))
    list(plain)
    deployment, out = Deployment(tmp_path), tmp_path / "run"
    try:
        deployment.server()
        for name in PARTIES:
            deployment.client(name, "--secure-only")
        deployment.connected(3)
        made = settings_file(tmp_path / "run.toml", {**SETTINGS, "secure_aggregation": True})
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        deployment.wait_for(lambda: rounds_of(out) >= 1, "round 1")
        run, server = (deployment.processes[name].pid for name in ("start", "server"))
        looked, found = 0, False
        while not looked or not found:
            with deployment.frozen("start"):
                for update in filter(None, (saved_at(deployment, name) for name in PARTIES)):
                    looked += 1
                    assert not holds(run, piece_of(update["state"]))
                    assert not holds(server, piece_of(update["state"]))
                # The search finds what is there: the global model.
                model = load_checkpoint(out / "checkpoint", lambda _: None).state["server"]["model"]
                found = found or holds(run, piece_of(model))
            time.sleep(0.1)
        assert rounds_of(out) < 6  # there were updates to be held when it looked
        deployment.kill(PARTIES[1])
        deployment.client(PARTIES[1], "--secure-only")
        assert deployment.finish("start") == 0, deployment.told()
    finally:
        deployment.stop()
    model = load_file(out / "model.safetensors")
    # On a busy machine a sum may end without the killed party, whose mask the others then reveal.
    alike = 0.2 if "is without" in (deployment.logs / "start.log").read_text() else 1e-5
    for name, value in plain.server.model.items():
        assert torch.allclose(model[name], value, atol=alike), name
    assert "the server sees a sum with others alone" in deployment.log(PARTIES[0])


CODED = {**LONG, "tasks": 1, "limit": 40, "min_clients": 3, "secure_aggregation": True,
         "compress": "int8", "closing_round": "end"}  # fmt: skip


@pytest.mark.long
def test_coded_sums_go_on_and_learn_as_much_though_a_party_and_the_run_are_killed(tmp_path):
    plain = Run(make_settings({**CODED, "secure_aggregation": False, "compress": "none"}))
    list(plain)
    deployment, out = Deployment(tmp_path), tmp_path / "run"
    try:
        deployment.server()
        for name in PARTIES:
            deployment.client(name, "--secure-only")
        deployment.connected(3)
        made = settings_file(tmp_path / "run.toml", CODED)
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        for kill in (PARTIES[1], "start", PARTIES[2]):
            at = rounds_of(out)
            deployment.wait_for(lambda at=at: rounds_of(out) >= at + 3, "three rounds")
            deployment.kill(kill)
            if kill == "start":
                deployment.spawn("start", "start", deployment.folder, "--resume")
            else:
                deployment.client(kill, "--secure-only")
        assert deployment.finish("start") == 0, deployment.told()
    finally:
        deployment.stop()
    told = [event for event in RunDirectory(out).events() if event["event"] == "round"]
    numbers = sum(t.numel() for t in load_file(out / "model.safetensors").values())
    first, last = told[0], told[-1]
    assert first["bytes_sent"] > 3 * 8 * numbers  # in fixed point: eight bytes a number
    assert last["bytes_sent"] < 3 * 2 * numbers  # one byte, and keys, letters and shares
    assert len(set(learned_of(out).values())) == 1
    result = RunDirectory(out).result()
    print(f"A {result.A:.1f}, undisturbed and plain {plain.result().A:.1f}")
    assert result.A >= plain.result().A - 6.0  # who is in which sum depends on the machine
