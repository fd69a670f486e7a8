"""`ofcl data` as a user types it, and what `ofcl run` says of data it cannot use."""

import sys

import numpy as np
import pytest
from PIL import Image

from ofcl.cli import main as cli
from tests.support.official_files import FILES


@pytest.fixture
def ofcl(monkeypatch, capsys):
    """Runs a command in this process; gives exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setenv("COLUMNS", "150")
        monkeypatch.setattr(sys, "argv", ["ofcl", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    rows = [f"{2 * n},{n % 7},{'abc'[n % 3]}" for n in range(60)]
    path.write_text("age,pulse,diagnosis\n" + "\n".join(rows) + "\n")
    return path


def test_list_says_what_is_here(ofcl, tmp_path):
    FILES["kc-cell"](tmp_path)
    code, out, err = ofcl("data", "list", "--data-root", tmp_path)
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert set(FILES) <= rows.keys()
    assert rows["kc-cell"].split()[-1] == "yes"
    assert rows["cifar10"].split()[-1] == "no"
    assert "built in" in rows["digits"]
    assert "165,466" in rows["kc-cell"]
    assert "CC BY 4.0" in rows["kc-cell"]
    assert str(tmp_path) in err


def test_the_environment_names_the_data_folder(ofcl, tmp_path, monkeypatch):
    monkeypatch.setenv("OFCL_DATA", str(tmp_path / "mine"))
    _, _, err = ofcl("data", "list")
    assert str(tmp_path / "mine") in err


def test_check_compares_with_the_official_numbers(ofcl, tmp_path):
    code, _, err = ofcl("data", "check", "digits")
    assert code == 0
    assert "1,437 train, 360 test, 10 classes: counts as published" in err
    FILES["kc-cell"](tmp_path)
    code, _, err = ofcl("data", "check", "kc-cell", "--data-root", tmp_path)
    assert code == 1
    assert "kc-cell: 90 train, officially 165,466" in err


def test_what_is_not_here(ofcl, tmp_path):
    code, _, err = ofcl("data", "check", "cifar10", "--data-root", tmp_path)
    assert (code, err.strip()) == (
        2,
        f"error: cifar10 is not in '{tmp_path}'; fetch it with: ofcl data prepare cifar10",
    )
    code, _, err = ofcl("data", "prepare", "cifar11")
    assert code == 2
    assert "Did you mean 'cifar10'?" in err


def test_prepare_finds_what_is_here(ofcl, tmp_path):
    FILES["cifar10"](tmp_path)
    code, _, err = ofcl("data", "prepare", "cifar10", "--data-root", tmp_path)
    assert (code, err.strip()) == (0, f"cifar10 is in {tmp_path}")


def test_prepare_makes_the_vectors_of_texts(ofcl, tmp_path, monkeypatch):
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.ones((len(texts), 2), dtype=np.float32)

    monkeypatch.setattr("ofcl.data.files.embeddings.load_encoder", lambda embedder: encode)
    FILES["20newsgroups"](tmp_path)
    code, _, err = ofcl("data", "prepare", "20newsgroups", "--data-root", tmp_path)
    assert code == 0, err
    assert len(asked) == 10
    assert all(text.startswith("query: ") for text in asked)


def test_inspect_shows_columns_classes_and_a_command(ofcl, table):
    code, out, err = ofcl("data", "inspect", table, "--label", "diagnosis")
    assert code == 0
    words = [line.split() for line in out.splitlines()]
    assert ["kind", "table"] in words
    assert ["label", "diagnosis"] in words
    assert ["numbers", "age,", "pulse"] in words
    assert ["b", "20"] in words
    assert "suggested: 2 tasks of about 1.5 classes of 3" in err
    assert f"ofcl run --dataset {table} --label diagnosis --tasks 2" in err


@pytest.mark.parametrize("in_pieces", [False, True])
def test_inspect_says_what_becomes_of_each_column(ofcl, tmp_path, monkeypatch, in_pieces):
    monkeypatch.setattr("ofcl.data.own.table_files.is_large", lambda path, how: in_pieces)
    wards = ["A", "B", "C", "D", ""]
    rows = "".join(f"{n % 7}.5,{wards[n % 5]},{'uvwxyz'[n % 6]},{'kl'[n % 2]}\n" for n in range(60))
    path = tmp_path / "patients.csv"
    path.write_text("age,ward,room,y\n" + rows)
    code, out, _ = ofcl("data", "inspect", path, "--data-root", tmp_path)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "ward 4 categories (A, B, C, D), gaps are marked" in lines
    assert "room 6 categories (u, v, w, x, y, …)" in lines
    assert "age a number" in lines


def test_inspect_takes_what_run_takes(ofcl, table, tmp_path):
    """The command that it suggests can be typed as it is."""
    code, out, err = ofcl("data", "inspect", table, "--label", "diagnosis", "--drop", "pulse")
    assert code == 0
    assert ["numbers", "age"] in [line.split() for line in out.splitlines()]
    assert "--drop pulse" in err
    code, again, _ = ofcl("data", "inspect", table, "--set", "label=diagnosis", "--columns", "age")
    assert code == 0
    assert ["numbers", "age"] in [line.split() for line in again.splitlines()]
    command = err[err.index("ofcl run") :].splitlines()[0].split()[1:]
    assert ofcl(*command, "--limit", "1", "--clients", "2", "--out", tmp_path / "r", "-q")[0] == 0


def test_inspect_of_mixed_images_suggests_a_size(ofcl, tmp_path):
    for label, side in (("cat", 20), ("dog", 30)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for n in range(3):
            Image.new("RGB", (side, 40)).save(tmp_path / "photos" / label / f"{n}.png")
    code, out, err = ofcl("data", "inspect", tmp_path / "photos")
    assert code == 0
    assert "20 × 40 to 30 × 40" in out
    assert "--image-size 32 --tasks 2" in err
    code, _, err = ofcl("data", "inspect", tmp_path / "photos", "--image-size", "16")
    assert code == 0
    assert "--image-size 16 --tasks 2" in err


def test_a_class_may_be_called_anything(ofcl, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("v,label\n" + "".join(f"{n},{'[red]' if n % 2 else 'b'}\n" for n in range(8)))
    _, out, _ = ofcl("data", "inspect", path)
    assert "[red]" in out


def test_inspect_names_the_embedder_and_embeds_nothing(ofcl, tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [f'{{"text": "hello {n}", "label": {n % 2}}}' for n in range(30)]
    path.write_text("\n".join(rows))
    code, out, err = ofcl("data", "inspect", path)
    assert code == 0
    assert "texts" in out
    assert "e5-small-v2 is downloaded once; --embedder minilm needs no network" in err
    assert "--embedder e5-small-v2 --tasks 2" in err
    _, _, err = ofcl("data", "inspect", path, "--embedder", "minilm")
    assert "downloaded" not in err
    assert "--embedder minilm --tasks 2" in err
    assert not list(tmp_path.rglob("*.sqlite"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--dataset", "cifar1"], "unknown dataset 'cifar1'"),
        (["--dataset", "blod"], "(no file or folder 'blod' either)"),
        (["--dataset", "nowhere/mine.csv"], "no file or folder 'nowhere/mine.csv'"),
        (["--dataset", "TABLE"], "which one is the label? Name it with --label"),
        (["--dataset", "TABLE", "--label", "diagnose"], "has no column 'diagnose'"),
        (["--dataset", "TABLE", "--label", "age"], "has 60 different values in 60 samples"),
        (["--dataset", "TABLE", "--label", "age", "--set", "columns=pulse"], "does not look like"),
        (["--dataset", "TABLE", "--label", "diagnosis", "--tasks", "9"], "9 tasks need at least"),
        (["--stream", "folder"], "unknown stream 'folder'"),
        (["--stream", "-", "--stream", "-"], "only one stream can be standard input"),
        (["--dataset", "digits", "--on-bad", "ignore"], "unknown on_bad 'ignore'"),
    ],
)
def test_mistakes_are_one_line(ofcl, table, tmp_path, arguments, problem):
    arguments = [table if a == "TABLE" else a for a in arguments]
    code, _, err = ofcl("run", *arguments, "--out", tmp_path / "run")
    assert code == 2
    errors = [line for line in err.splitlines() if not line.startswith("waiting")]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert problem in errors[0]
    assert not (tmp_path / "run").exists()


def test_a_run_of_ones_own_table_can_be_resumed_from_anywhere(ofcl, table, tmp_path, monkeypatch):
    monkeypatch.chdir(table.parent)
    arguments = ["--label", "diagnosis", "--memory", 9, "--set", "burn_in=0", "--set", "q=1"]
    code, _, err = ofcl("run", "--dataset", table.name, *arguments, "--out", tmp_path / "run", "-q")
    assert code == 0, err
    (tmp_path / "run" / "result.json").unlink()
    monkeypatch.chdir("/")
    code, _, err = ofcl("resume", tmp_path / "run", "-q")
    assert code == 0, err
    settings = (tmp_path / "run" / "settings.toml").read_text()
    assert f'dataset = "{table}"' in settings
    assert "tasks = 2" in settings
