import json
import os
import resource
import shutil
import subprocess
import sys

import pytest
import torch

import ofcl
from ofcl import OfclError
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tests.conftest import TINY


def save(folder, events):
    state = {"w": torch.full((3,), float(events)), "list": [1, None, "a"]}
    save_checkpoint(folder, Checkpoint(events, 1.5, state))


def damage(path, how):
    target = path / ("state.json" if how == "json" else "tensors.safetensors")
    if how == "missing":
        target.unlink()
    elif how == "truncated":
        target.write_bytes(target.read_bytes()[:-5])
    elif how == "empty":
        target.write_bytes(b"")
    else:  # one bit
        content = bytearray(target.read_bytes())
        content[len(content) // 2] ^= 1
        target.write_bytes(bytes(content))


DAMAGES = ["missing", "truncated", "empty", "bit", "json"]


def test_the_last_two_are_kept(tmp_path):
    for events in (5, 9, 14):
        save(tmp_path, events)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000009", "000000014"]
    loaded = load_checkpoint(tmp_path, print)
    assert (loaded.events, loaded.seconds) == (14, 1.5)
    assert loaded.state["w"].tolist() == [14, 14, 14]
    assert loaded.state["list"] == [1, None, "a"]


def save_state(folder, n):
    """Another state of the same number of events."""
    save_checkpoint(folder, Checkpoint(5, float(n), {}))


@pytest.mark.parametrize("first", [0, 997])
def test_of_states_with_the_same_events_the_last_two_are_kept(tmp_path, first):
    """So it is where samples come without an event, and at a server that waits."""
    save_state(tmp_path, 0)
    (tmp_path / "000000005").rename(tmp_path / f"000000005.{first:03d}")
    for n in range(1, 7):
        save_state(tmp_path, n)
        assert len(list(tmp_path.iterdir())) == 2
        assert load_checkpoint(tmp_path, pytest.fail).seconds == n


@pytest.mark.parametrize("killed", range(1, 6))
def test_a_kill_before_an_older_state_is_deleted_does_not_bring_it_back(
    tmp_path, monkeypatch, killed
):
    for n in range(killed):
        save_state(tmp_path, n)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    save_state(tmp_path, killed)
    assert load_checkpoint(tmp_path, pytest.fail).seconds == killed


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_one_is_told_of_and_the_older_is_used(tmp_path, how):
    save(tmp_path, 5)
    save(tmp_path, 9)
    damage(tmp_path / "000000009", how)
    told = []
    assert load_checkpoint(tmp_path, told.append).events == 5
    assert len(told) == 1
    assert "is damaged" in told[0]


@pytest.mark.parametrize("how", DAMAGES)
def test_if_all_are_damaged_nothing_is_touched(tmp_path, how):
    save(tmp_path, 5)
    save(tmp_path, 9)
    for name in ("000000005", "000000009"):
        damage(tmp_path / name, how)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(OfclError, match="every checkpoint .* is damaged; nothing was changed"):
        load_checkpoint(tmp_path, print)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_damaged_ones_do_not_crowd_out_good_ones(tmp_path):
    save(tmp_path, 100)
    save(tmp_path, 200)
    damage(tmp_path / "000000200", "bit")
    for events in (150, 260):  # resumed from 100
        save(tmp_path, events)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000150", "000000260"]


def test_a_state_that_is_there_already_is_not_touched(tmp_path):
    save(tmp_path, 5)
    before = (tmp_path / "000000005" / "state.json").stat().st_ino
    save(tmp_path, 5)
    assert (tmp_path / "000000005" / "state.json").stat().st_ino == before
    assert [p.name for p in tmp_path.iterdir()] == ["000000005"]
    damage(tmp_path / "000000005", "truncated")
    save(tmp_path, 5)
    assert load_checkpoint(tmp_path, pytest.fail).events == 5


def test_no_checkpoint_yet(tmp_path):
    assert load_checkpoint(tmp_path / "checkpoint", print) is None


def test_a_resumed_run_uses_the_older_one_and_ends_alike(tmp_path, blobs):
    values = {**TINY, "method": "bi", "checkpoint_every": 10}
    result = ofcl.run(blobs, out=tmp_path / "run", **values)
    folders = sorted((tmp_path / "run" / "checkpoint").iterdir())
    damage(folders[-1], "bit")
    (tmp_path / "run" / "result.json").unlink()
    with pytest.warns(UserWarning, match="is damaged"):
        again = ofcl.resume(tmp_path / "run", dataset=blobs)
    assert {**again.to_json(), "seconds": 0} == {**result.to_json(), "seconds": 0}


def test_nothing_is_unpickled(tmp_path):
    save(tmp_path, 5)
    files = [p.name for p in tmp_path.rglob("*") if p.is_file()]
    assert sorted(files) == ["state.json", "tensors.safetensors"]
    json.loads((tmp_path / "000000005" / "state.json").read_text())


def test_lost_events_are_seen(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", **TINY)
    (tmp_path / "run" / "result.json").unlink()
    events = tmp_path / "run" / "events.jsonl"
    events.write_text("\n".join(events.read_text().splitlines()[:5]) + "\n")
    with pytest.raises(OfclError, match="has lost events"):
        ofcl.resume(tmp_path / "run", dataset=blobs)


def test_a_full_disk_is_said_and_what_was_saved_stays_whole(tmp_path):
    """The limit on file sizes stands for a disk that fills up: the system refuses to write."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "ofcl.cli.main", "run", "--dataset", "digits", "--method",
               "er", "--memory", "100", "--set", "model=mlp", "--set", "burn_in=1",
               "--set", "hidden=16", "--set", "checkpoint_every=20", "--out", str(out)]  # fmt: skip
    size = 260_000  # enough for the first checkpoints, too little for a full memory

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr
    assert load_checkpoint(out / "checkpoint", pytest.fail).events >= 20
    shutil.copytree(out, tmp_path / "copy")
    resumed = ofcl.resume(tmp_path / "copy")  # with room again
    assert resumed.A is not None
