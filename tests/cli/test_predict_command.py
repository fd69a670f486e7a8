"""`ofcl predict` and `ofcl show`, as a user has them."""

import csv
import functools
import io
import json
import os
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

import ofcl
from ofcl.bundle.bundle_files import read_bundle, write_folder
from tests.support.commands import Command
from tests.support.commands import ofcl as command
from tests.support.trained_runs import TABLES, image_folder, patients, squares, write_rows


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder with a run over images, and the images."""
    folder = tmp_path_factory.mktemp("pictures")
    image_folder(folder)
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A folder with a run over a table, and new rows without a label."""
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder / "old.csv", ["pulse", "weight", "diagnosis"], patients(200, 0))
    ofcl.run(dataset=str(folder / "old.csv"), label="diagnosis", out=folder / "run",
             **{**TABLES, "limit": None, "validation": 0.3})  # fmt: skip
    new = [[n, weight, pulse] for n, (pulse, weight, _) in enumerate(patients(30, 5))]
    write_rows(folder / "new.csv", ["id", "weight", "pulse"], new)
    return folder


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def succeeds(*arguments, **how):
    code, out, err = command(*arguments, **how)
    assert code == 0, err
    return out


def fails(*arguments):
    code, out, err = command(*arguments)
    assert (code, err.count("\n")) == (2, 1), err
    assert "Traceback" not in err
    return err


def test_a_folder_of_images(pictures):
    test = pictures / "pictures" / "test"
    answers = read(succeeds("predict", pictures / "run", test, "-q"))
    files = sorted(test.rglob("*.png"))
    assert [row["input"] for row in answers] == [str(file) for file in files]
    model = ofcl.load(pictures / "run")
    assert [row["label"] for row in answers] == model.predict(files).tolist()
    wanted = model.predict_proba(files).max(axis=1)
    assert np.allclose([float(row["probability"]) for row in answers], wanted, atol=1e-6)
    unsure = [float(row["uncertainty"]) for row in answers]
    assert np.allclose(unsure, model.uncertainty(files), atol=1e-5)


def test_one_image_with_its_likeliest_labels(pictures, tmp_path):
    Image.fromarray(squares(1, 9)[0][0]).resize((20, 20)).save(tmp_path / "large.png")
    error = fails("predict", pictures / "run", tmp_path / "large.png")
    assert "large.png' has 20 × 20 pixels; this model takes grey images of 8 × 8" in error
    assert "--resize" in error
    (row,) = read(succeeds("predict", pictures / "run", tmp_path / "large.png", "--resize",
                           "--top", 5, "--no-uncertainty", "-q"))  # fmt: skip
    assert row["label_1"] == row["label"]
    assert row["uncertainty"] == row["label_5"] == row["probability_5"] == ""  # of four classes
    shares = [float(row[f"probability_{n}"]) for n in range(1, 5)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=1e-5)


def test_arrays(pictures, tmp_path):
    x, _ = squares(5, 3)
    np.savez(tmp_path / "a.npz", x=x)
    np.save(tmp_path / "a.npy", x)
    answers = [
        read(succeeds("predict", pictures / "run", tmp_path / name)) for name in ("a.npz", "a.npy")
    ]
    assert answers[0] == answers[1]
    assert [row["input"] for row in answers[0]] == ["0", "1", "2", "3", "4"]
    np.savez(tmp_path / "b.npz", foo=x, bar=x)
    assert "has the arrays foo, bar; the samples must be called x" in fails(
        "predict", pictures / "run", tmp_path / "b.npz"
    )


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_into_a_file(rows, tmp_path, suffix):
    out = tmp_path / "deep" / f"answers.{suffix}"
    succeeds("predict", rows / "run", rows / "new.csv", "-o", out, "--keep", "id")
    if suffix == "csv":
        found = read(out.read_text())
    elif suffix == "jsonl":
        found = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        found = pyarrow.parquet.read_table(out).to_pylist()
    assert [int(row["input"]) for row in found] == list(range(2, 32))  # lines of the file
    assert [int(row["id"]) for row in found] == list(range(30))
    table = [{"pulse": pulse, "weight": weight} for pulse, weight, _ in patients(30, 5)]
    model = ofcl.load(rows / "run")
    assert [row["label"] for row in found] == model.predict(table).tolist()
    assert np.allclose(
        [float(r["uncertainty"]) for r in found], model.uncertainty(table), atol=1e-5
    )
    assert list(out.parent.iterdir()) == [out]


def test_what_does_not_fit_is_named_and_leaves_no_file(rows, tmp_path):
    (tmp_path / "bad.csv").write_text("pulse,weight\n70,1\n,2\n80,3\nfast,4\n")
    out = tmp_path / "answers.csv"
    error = fails("predict", rows / "run", tmp_path / "bad.csv", "-o", out)
    assert "'bad.csv', line 3: column 'pulse' is empty; mend it, or leave such samples out" in error
    assert not list(tmp_path.glob("answers*"))
    code, _, err = command("predict", rows / "run", tmp_path / "bad.csv", "-o", out, "--on-bad",
                           "skip")  # fmt: skip
    assert code == 0
    assert "bad.csv: 2 left out (first: 'bad.csv', line 3: column 'pulse' is empty)" in err
    assert [row["input"] for row in read(out.read_text())] == ["2", "4"]
    (tmp_path / "less.csv").write_text("pulse\n70\n")
    error = fails("predict", rows / "run", tmp_path / "less.csv")
    assert "'less.csv', line 2: column 'weight' is missing; it has pulse" in error
    assert "this model takes rows of numbers with the columns pulse, weight" in fails(
        "predict", rows / "run", tmp_path / "x.png"
    ).replace(
        "no file or folder", "this model takes rows of numbers with the columns pulse, weight"
    )
    Image.new("L", (8, 8)).save(tmp_path / "x.png")
    assert "this model takes rows of numbers" in fails("predict", rows / "run", tmp_path / "x.png")
    assert "expected a name that ends with .csv, .jsonl, .parquet" in fails(
        "predict", rows / "run", tmp_path / "bad.csv", "-o", "answers.txt"
    )


def test_columns_that_cannot_be_copied_are_named(pictures, rows):
    folder = pictures / "pictures" / "test"
    assert "--keep copies columns of tables" in fails(
        "predict", pictures / "run", folder, "--keep", "id"
    )
    answer = fails("predict", rows / "run", rows / "new.csv", "--keep", "name")
    assert "has no column 'name'; it has id, weight, pulse" in answer
    assert "the answers have a column of that name already" in fails(
        "predict", rows / "run", rows / "new.csv", "--keep", "label"
    )


def test_lines_of_json_are_answered_line_by_line(rows, tmp_path):
    """In a pipe that stays open: each line has its answer before the next one is written."""
    os.mkfifo(tmp_path / "pipe")
    said = tmp_path / "said"
    process = Command("predict", rows / "run", "-", "--keep", "id", stdin=tmp_path / "pipe",
                      log=said)  # fmt: skip
    lines = [
        ('{"pulse": 70, "weight": 900, "id": "a"}', None),
        ("nonsense", "not JSON (Expecting value at character 1)"),
        ('{"pulse": 70}', "column 'weight' is missing; it has pulse"),
        ('{"pulse": 95, "weight": 10, "id": "b"}', None),
    ]
    with (tmp_path / "pipe").open("w", buffering=1) as pipe:
        for n, (line, problem) in enumerate(lines, 1):
            pipe.write(line + "\n")
            deadline = time.monotonic() + 60
            while not said.exists() or said.read_text().count("\n") < n:
                assert time.monotonic() < deadline, "no answer"
                time.sleep(0.01)
            answer = json.loads(said.read_text().splitlines()[-1])
            assert answer["input"] == n
            if problem:
                assert answer == {"input": n, "error": problem}
            else:
                assert answer["id"] == json.loads(line)["id"]
                assert answer["label"] in ofcl.load(rows / "run").labels
    code, out, _ = process.wait()
    assert code == 0
    assert "2 of 4 lines could not be used" in out


def test_it_abstains_by_its_validation_data_or_by_the_users(rows):
    for arguments in ([], ["--by", "uncertainty"],
                      ["--calibrate", rows / "old.csv", "--label", "diagnosis"]):  # fmt: skip
        code, out, err = command("predict", rows / "run", rows / "new.csv", "--abstain", "20%",
                                 *arguments)  # fmt: skip
        assert code == 0, err
        answers = read(out)
        silent = [row for row in answers if not row["label"]]
        assert f"{len(silent)} of 30 samples have no label" in err
        name = "uncertainty" if "--by" in arguments else "probability"
        if silent:
            given = [float(row[name]) for row in answers if row["label"]]
            withheld = [float(row[name]) for row in silent]
            sure = max(given) < min(withheld) if name == "uncertainty" else (
                min(given) > max(withheld)
            )  # fmt: skip
            assert sure
    assert "cannot be promised" in fails("predict", rows / "run", rows / "new.csv", "--abstain",
                                         "0.0001")  # fmt: skip
    assert "expected a share between 0 and 1" in fails(
        "predict", rows / "run", rows / "new.csv", "--abstain", "5"
    )


HOSTILE = "cat\x1b[2J\x9b31m"


@pytest.fixture(scope="module")
def hostile(rows, tmp_path_factory):
    """A model with a label that would clear a terminal."""
    bundle = read_bundle(rows / "run" / "model")
    labels = (HOSTILE, *bundle.description.labels[1:])
    learned = replace(bundle.description.learned, tasks=(), data=HOSTILE)
    changed = replace(bundle.description, labels=labels, learned=learned)
    folder = tmp_path_factory.mktemp("hostile") / "model"
    write_folder(bundle._replace(description=changed), folder)
    return folder


def use_terminal(name):
    """In the child: its standard output is a terminal."""
    os.dup2(os.open(name, os.O_WRONLY | os.O_NOCTTY), 1)


def in_a_terminal(monkeypatch, *arguments):
    """Runs a command with a pseudo-terminal as its standard output; returns what is seen there."""
    monkeypatch.setenv("TERM", "dumb")
    ours, theirs = os.openpty()
    process = Command(*arguments, prepare=functools.partial(use_terminal, os.ttyname(theirs)))
    code, _, err = process.wait()
    assert code == 0, err
    seen = os.read(ours, 2**16)
    os.close(ours)
    os.close(theirs)
    return seen.decode()


def test_no_escape_reaches_a_terminal(hostile, rows, monkeypatch):
    seen = in_a_terminal(monkeypatch, "predict", hostile, rows / "new.csv", "--no-uncertainty")
    assert "cat·[2J" in seen
    assert "… and 10 more; all of them with -o answers.csv" in seen
    shown = in_a_terminal(monkeypatch, "show", hostile)
    plain = succeeds("show", hostile)
    raw = succeeds("show", hostile, "--json")
    for text in (seen, shown, plain, raw):
        assert not {"\x1b", "\x9b"} & set(text)
    assert json.loads(raw)["labels"][0] == HOSTILE
    assert "rows of numbers with the columns pulse, weight" in plain


def test_an_older_file_stays_if_it_is_interrupted(rows, tmp_path):
    out = tmp_path / "answers.csv"
    out.write_text("old")
    (tmp_path / "bad.csv").write_text("pulse,weight\n70,1\nx,2\n")
    fails("predict", rows / "run", tmp_path / "bad.csv", "-o", out)
    assert out.read_text() == "old"


def test_standard_input_that_is_a_file(rows, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"pulse": 1, "weight": 2}\n\n{"pulse": 3, "weight": 4}')
    process = Command("predict", rows / "run", "-", stdin=tmp_path / "in.jsonl")
    code, out, _ = process.wait()
    assert code == 0
    assert [json.loads(line)["input"] for line in out.splitlines()] == [1, 3]
