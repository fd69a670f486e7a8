"""Runs of an earlier version are read, resumed and repeated with the results that it had.

`scripts/make_stored_runs.py` says what is in `tests/stored`, and which version made it.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

import ofcl
from ofcl.report.recorded_runs import read_run
from ofcl.storage.run_directory import RunDirectory
from tests.support.commands import in_one_process
from tests.support.commands import ofcl as command

STORED = Path(__file__).parent.parent / "stored"
SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "make_stored_runs.py"


def load_script():
    spec = importlib.util.spec_from_file_location("make_stored_runs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()
HALF_DONE = sorted(path.parent.name for path in STORED.glob("*/expected.json"))
RESULTS = json.loads((STORED / "results.json").read_text())
SLOW = {"published/bi/images"}  # other runs have its protocol, its method and its network
COUNTS = {"rounds", "bytes_sent", "bytes_received", "skipped", "client", "task", "batches",
          "samples"}  # fmt: skip


@pytest.fixture(scope="module")
def same_rounding():
    """Whether this processor rounds like the one on which the runs were made."""
    return script.rounding() == (STORED / "rounding.txt").read_text().strip()


def leaves(value, path=()):
    """The numbers in nested lists and dictionaries, by where they are."""
    if isinstance(value, list | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, part in items for k, v in leaves(part, (*path, key)).items()}
    return {path: value}


def assert_same(result, expected, same_rounding, images):
    """Compares all that a run came to with what the earlier version came to.

    A processor that rounds in the same way has to give the same numbers, up to the order of a sum.
    Another one gives the same counts and about the same loss. For an MLP the loss was measured to
    differ by at most 4e-4: one other sample was remembered. Networks with BatchNorm differ by up to
    4 %, and their accuracies too, because they magnify the last bit at their learning rate.
    Methods differ by 1e-3 or more, so only a processor of the first kind tells them all apart.
    """
    result, expected = leaves(result), leaves(expected)
    assert result.keys() == expected.keys()
    counts = {path for path in expected if path[-1] in COUNTS}
    assert {path: result[path] for path in counts} == {path: expected[path] for path in counts}
    if same_rounding:
        assert result == pytest.approx(expected, rel=1e-6, abs=1e-9)
    else:
        loss = ("anytime_loss",)
        assert result[loss] == pytest.approx(expected[loss], rel=0.1 if images else 1e-3)


@pytest.fixture
def stored(tmp_path):
    """Copies stored runs to where they can be changed."""

    def copy(name):
        shutil.copytree(STORED / name, tmp_path / name)
        shutil.copytree(STORED / script.TABLES, tmp_path / script.TABLES, dirs_exist_ok=True)
        file = tmp_path / name / "settings.toml"
        if file.exists():
            file.write_text(file.read_text().replace(script.ANYWHERE, str(tmp_path)))
        return tmp_path / name

    return copy


@pytest.mark.filterwarnings("ignore:learning begins when")
@pytest.mark.parametrize("name", HALF_DONE)
def test_a_half_done_run_is_read_and_resumed(stored, same_rounding, name):
    path = stored(name)
    before = read_run(RunDirectory(path))
    assert not before.finished
    assert len(before.events) == len((path / "events.jsonl").read_text().splitlines())
    assert 0 < before.result.rounds

    data = script.streams_of_python() if name == "streams" else {}
    result = ofcl.resume(path, **data)
    values = result.to_json()
    del values["seconds"]
    expected = json.loads((path / "expected.json").read_text())
    assert before.result.rounds < result.rounds
    assert_same(values, expected, same_rounding, images=before.settings.model != "mlp")
    after = read_run(RunDirectory(path))
    assert after.finished
    assert after.result == result
    assert [event["n"] for event in after.events] == list(range(len(after.events)))


@pytest.mark.parametrize("name", sorted(RESULTS.keys() - SLOW))
def test_a_run_gives_the_result_that_it_gave(same_rounding, name):
    result = ofcl.run(**script.repeated()[name]).to_json()
    expected = RESULTS[name]
    result = {key: result[key] for key in expected}
    assert_same(result, expected, same_rounding, images=name.endswith("images"))


def test_every_stored_result_has_its_settings():
    assert RESULTS.keys() == script.repeated().keys()


@pytest.mark.parametrize("name", script.FINISHED)
def test_a_finished_run_is_read(stored, name):
    path = stored("finished") / name
    files = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    written = json.loads((path / "result.json").read_text())
    assert RunDirectory(path).result().to_json() == written
    assert ofcl.resume(path).to_json() == written
    view = read_run(RunDirectory(path))
    assert view.finished
    assert script.FINISHED[name].items() <= view.settings.model_dump().items()
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == files


@in_one_process
def test_commands_say_of_finished_runs_what_they_said(stored):
    folder = stored("finished")
    code, out, err = command("compare", "--json", folder)
    assert code == 0, err
    expected = leaves(json.loads((folder / "compare.json").read_text()))
    said = leaves(json.loads(out))  # later versions may say more
    assert {path: said[path] for path in expected} == pytest.approx(expected, rel=1e-9)
    code, out, err = command("memory", "list", folder / "bi-0")
    assert code == 0, err
    assert out == (folder / "memory.txt").read_text()
