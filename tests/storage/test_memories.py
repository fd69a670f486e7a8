"""What is forgotten is gone: from the memory, and from every file."""

import shutil

import numpy as np
import pytest

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ofcl.storage.memories import forget, list_samples, memory_places, read_memories
from ofcl.storage.run_directory import RunDirectory
from tests.conftest import TINY
from tests.support.commands import in_one_process
from tests.support.commands import ofcl as command


def stopped(folder, blobs, after=60):
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    for n, _ in enumerate(Run(made, blobs, folder)):
        if n == after:
            break
    return RunDirectory(folder)


def bytes_of(run, client, number):
    """A sample as it lies in a file."""
    state = load_checkpoint(run.checkpoints, print).state["engine"]["clients"][client]
    memory = state["learner"]["memory"]
    row = memory["samples"]["id"].tolist().index(number)
    return memory["x"][row].numpy().astype(np.float32).tobytes()


def samples_of(run):
    return [s for memory in read_memories(memory_places(run)) for s in list_samples(memory)]


def files_with(folder, content):
    return [p for p in folder.rglob("*") if p.is_file() and content in p.read_bytes()]


def test_a_forgotten_sample_is_in_no_file_and_the_run_goes_on(tmp_path, blobs):
    run = stopped(tmp_path / "run", blobs)
    before = [sample for sample in samples_of(run) if sample.client == 1]
    number = before[len(before) // 2].number
    content = bytes_of(run, 1, number)
    assert len(files_with(run.path, content)) >= 1
    assert forget(memory_places(run), 1, [number, 10**6]) == [number]
    assert files_with(run.path, content) == []
    after = [sample for sample in samples_of(run) if sample.client == 1]
    assert after == [sample for sample in before if sample.number != number]
    result = ofcl.resume(run.path, dataset=blobs)
    assert result.A is not None
    assert files_with(run.path, content) == []
    assert number not in [s.number for s in samples_of(run) if s.client == 1]


def test_every_checkpoint_is_rewritten_and_whole(tmp_path, blobs):
    run = stopped(tmp_path / "run", blobs)
    sample = samples_of(run)[0]
    forget(memory_places(run), sample.client, [sample.number])
    found = sorted(run.checkpoints.iterdir(), reverse=True)
    assert len(found) == 2
    for path in found:
        checkpoint = load_checkpoint(run.checkpoints, pytest.fail)
        assert checkpoint.events == int(path.name[:9])
        memory = checkpoint.state["engine"]["clients"][sample.client]["learner"]["memory"]
        assert sample.number not in memory["samples"]["id"].tolist()
        shutil.rmtree(path)


def test_a_client_with_a_folder_of_its_own(tmp_path, blobs):
    run = stopped(tmp_path / "run", blobs)
    checkpoint = load_checkpoint(run.checkpoints, print)
    for k, state in enumerate(checkpoint.state["engine"]["clients"]):
        folder = run.path / "clients" / str(k) / "run"
        save_checkpoint(folder, Checkpoint(3, 0.0, {"client": state, "reply": None}))
    sample = [s for s in samples_of(run) if s.client == 0][-1]
    assert forget(memory_places(run), 0, [sample.number]) == [sample.number]
    assert sample not in samples_of(run)


@in_one_process
def test_what_cannot_be_forgotten_is_said(tmp_path, blobs):
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    running = Run(made, blobs, tmp_path / "run")
    events = iter(running)
    for _ in range(30):
        next(events)
    code, _, err = command("memory", "forget", tmp_path / "run", "--client", 0, "--id", 0,
                           cwd=tmp_path)  # fmt: skip
    assert code == 2
    assert "in use by another process" in err
    events.close()
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(OfclError, match="no client 7 here; there is: 0, 1"):
        forget(memory_places(run), 7, [0])
    newest = max(run.checkpoints.iterdir())
    (newest / "state.json").write_text("{")
    before = {p: p.read_bytes() for p in run.checkpoints.rglob("*") if p.is_file()}
    with pytest.raises(OfclError, match="is damaged"):
        forget(memory_places(run), 0, [0])
    assert before == {p: p.read_bytes() for p in run.checkpoints.rglob("*") if p.is_file()}


@in_one_process
def test_the_commands(tmp_path, blobs):
    run = stopped(tmp_path / "run", blobs)
    code, out, err = command("memory", "list", run.path, "--client", 0, cwd=tmp_path)
    assert code == 0, err
    first = out.splitlines()[1].split()
    assert first[0] == "0"
    code, out, err = command("memory", "forget", run.path, "--client", 0, "--id", first[1],
                             cwd=tmp_path)  # fmt: skip
    assert code == 0, err
    assert out.strip() == f"client 0 has forgotten {first[1]}"
    code, out, err = command("memory", "forget", run.path, "--client", 0, "--id", first[1],
                             cwd=tmp_path)  # fmt: skip
    assert code == 2
    assert f"client 0 does not remember {first[1]}" in err
