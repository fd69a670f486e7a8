"""The script behind docs/uncertainty.md: what it runs, what it leaves out, what its tables say."""

import argparse
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from ofcl import make_settings
from ofcl.testing import TINY, make_blobs

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("uncertainty", ROOT / "scripts/uncertainty.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def job(script, *values):
    return dict(zip(script.JOB, values, strict=True))


def test_all_that_it_can_run_are_settings(script):
    for name in script.METHODS:
        for dataset, protocol, noise in [
            ("cifar10", "sound", "labels"),
            ("20newsgroups", "strong", "inputs"),
            ("fashion-mini", "strong", "clean"),
        ]:
            given = job(script, dataset, protocol, 200, noise, name, 0)
            make_settings(script.settings_of(given, "data", "cpu", {}))


def test_a_run_gives_the_accuracy_of_each_client(script, monkeypatch, tmp_path):
    data = make_blobs(train=24)
    arrays = {n: getattr(data, n).numpy() for n in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(tmp_path / "20newsgroups-minilm.npz", **arrays)
    monkeypatch.setattr(script, "protocol_of", lambda *given: {**TINY})
    given = job(script, "20newsgroups", "sound", 12, "labels", "loss-weighted", 1)
    line = script.run_one(given, str(tmp_path), "cpu", {"hidden": 7})
    assert {name: line[name] for name in script.JOB} == given
    assert line["A"] == pytest.approx(np.mean(line["A_of_clients"]))
    assert line["settings"]["label_noise"] == 0.2
    assert line["settings"]["hidden"] == 7
    assert 0 < line["noisy_remembered"] < 40  # a fifth of what came has a wrong label
    assert json.loads(json.dumps(line)) == line


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def line_of(script, method, seed, a, noise="clean"):
    given = job(script, "dbpedia", "sound", 60, noise, method, seed)
    of_clients = [a - 1, a + 1]
    return {**given, "A": a, "F": 5.0, "global_A": a, "global_F": 5.0, "A_of_clients": of_clients}


def test_what_is_in_the_file_is_not_run_again(script, tmp_path, capsys):
    path = tmp_path / "lines.jsonl"
    write(path, [line_of(script, "cbr", seed, 60.0) for seed in (0, 1)])
    path.write_text(path.read_text() + '{"dataset": "dbp')  # it was stopped while it wrote
    options = argparse.Namespace(
        datasets="dbpedia", protocols="sound", memories="60", noise="clean", methods="cbr",
        seeds="0,1", workers=1, device="cpu", data=None, set=[], out=path,
    )  # fmt: skip
    script.run_all(options)
    assert "0 runs, 2 in" in capsys.readouterr().out
    assert path.read_text().endswith('{"dataset": "dbp\n')  # what comes next is a line of its own


def test_tables_have_the_difference_to_chance(script, tmp_path, capsys):
    path = tmp_path / "lines.jsonl"
    lines = [line_of(script, "cbr", seed, 60.0 + seed) for seed in range(3)]
    lines += [line_of(script, "loss-bottom", seed, 63.0 + seed) for seed in range(3)]
    lines += [line_of(script, "bi-bottom", seed, 59.0 + 3 * seed) for seed in range(3)]
    write(path, lines)
    script.print_tables([path])
    table = capsys.readouterr().out
    assert "### dbpedia, `sound`, M = 60" in table
    assert "| loss-bottom | 64.0 / 5.0 (64.0), 3 seeds | **+3.0 [+3.0, +3.0]** |" in table
    assert "| bi-bottom | 62.0 / 5.0 (62.0), 3 seeds | +1.0 [" in table
    assert "| cbr | 61.0 / 5.0 (61.0), 3 seeds |  |" in table
    assert "| loss-bottom | +3.0: 1 / 0 / 0 |" in table


def test_an_unknown_name_is_refused(script):
    with pytest.raises(SystemExit, match="unknown 'bie'"):
        script.chosen("cbr,bie", script.METHODS)
