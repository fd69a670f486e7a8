"""Tests of tables that are read in pieces: they give what tables that are read whole give."""

import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ofcl
from ofcl.data.files import csv_pieces
from ofcl.data.loading import load_dataset, read_raw
from ofcl.data.options import Reading
from ofcl.data.own.large_tables import find_large_meaning, is_large
from ofcl.data.stored_rows import StoredSamples
from ofcl.errors import OfclError


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a piece have 64 rows or 4 kB, so that small files have many."""
    monkeypatch.setattr(csv_pieces, "ROWS", 64)
    monkeypatch.setattr(csv_pieces, "BLOCK", 4096)


def mixed_rows(rows: int) -> list[str]:
    """Makes lines of a CSV file with categories, dates, truth values, gaps and identifiers."""
    draw = random.Random(0)
    lines = ["patient_id,age,ward,smoker,seen,at,price,rare,diagnosis"]
    for n in range(rows):
        age = "" if draw.random() < 0.1 else f"{draw.gauss(50, 20):.3f}"
        ward = draw.choice(["A", "B", "C ", "", "NA"])
        seen = f"2024-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        price = f'"{draw.randint(1, 9)},{draw.randint(100, 999)}.5"'
        rare = f"w{int(draw.expovariate(0.05))}"
        at = draw.choice(["7:05", "19:30", "#N/A"])
        lines.append(f"P{n},{age},{ward},{draw.choice(['yes', 'no'])},{seen},{at},{price},{rare},"
                     f"{draw.choice(['flu', 'cold', 'none'])}")  # fmt: skip
    return lines


def number_rows(rows: int) -> list[str]:
    """Makes lines of a CSV file with numbers alone."""
    draw = random.Random(1)
    return ["a,b,y", *(f"{draw.gauss(0, 1)},{draw.gauss(5, 3)},{n % 3}.0" for n in range(rows))]


def both(path: Path, how: Reading) -> tuple[ofcl.Dataset, ofcl.Dataset]:
    """Reads a file whole and in pieces."""
    return load_dataset(str(path), how), load_dataset(str(path), replace(how, in_memory=0))


@pytest.mark.parametrize("lines", [mixed_rows(500), number_rows(500)])
def test_pieces_give_the_same_dataset(tmp_path: Path, lines: list[str]) -> None:
    file = tmp_path / "t.csv"
    file.write_text("\n".join(lines))
    label = lines[0].split(",")[-1]
    whole, pieces = both(file, Reading(root=tmp_path, label=label))
    assert isinstance(pieces.x_train, StoredSamples)
    assert isinstance(whole.x_train, torch.Tensor)
    assert pieces.form == whole.form
    assert pieces.notes == whole.notes
    assert pieces.labels == whole.labels
    assert pieces.shape == whole.shape
    for part in ("train", "test"):
        assert torch.equal(getattr(pieces, f"y_{part}"), getattr(whole, f"y_{part}"))
        assert torch.equal(getattr(pieces, f"x_{part}")[:], getattr(whole, f"x_{part}"))
    assert pieces.fingerprint() == whole.fingerprint()


def test_pieces_need_less_memory(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    names = ",".join(f"n{k}" for k in range(8))
    rows = [",".join(f"{n * k % 97}.25" for k in range(1, 9)) + f",{n % 2}" for n in range(3000)]
    file.write_text("\n".join([f"{names},y", *rows]))
    most = {}
    for in_memory in (10**9, 0):
        how = Reading(root=tmp_path, label="y", in_memory=in_memory)
        find_large_meaning(file, how)  # whatever is imported is not counted
        tracemalloc.start()
        load_dataset(str(file), how)
        most[in_memory] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most[0] < most[10**9] / 2


def test_files_of_more_than_64_mb_are_read_in_pieces(tmp_path: Path) -> None:
    for size, large in ((64_000_000, False), (64_000_001, True)):
        with (tmp_path / "t.csv").open("wb") as file:
            file.truncate(size)  # takes no room on the disk
        assert is_large(tmp_path / "t.csv", Reading(root=tmp_path)) == large


def test_pieces_of_train_and_test_files(tmp_path: Path) -> None:
    lines = mixed_rows(400)
    (tmp_path / "train.csv").write_text("\n".join(lines[:300]))
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *reversed(lines[300:])]))
    whole, pieces = both(tmp_path, Reading(root=tmp_path / "cache", label="diagnosis"))
    assert torch.equal(pieces.x_test[:], whole.x_test)
    assert len(whole.x_test) == 101


def test_damage_is_reported_alike(tmp_path: Path) -> None:
    lines = number_rows(300)
    lines[70], lines[250] = "x,1,0", "1e99,2,0"
    file = tmp_path / "t.csv"
    file.write_text("\n".join(lines))
    how = Reading(root=tmp_path, label="y")
    for in_memory in (0, 10**9):
        with pytest.raises(OfclError, match="line 71: column 'a' is not a number but 'x'"):
            load_dataset(str(file), replace(how, in_memory=in_memory))
    lines[200] = "1,2"
    file.write_text("\n".join(lines))
    whole, pieces = both(file, replace(how, on_bad="skip"))
    assert "3 left out" in whole.notes[0]
    assert "3 left out" in pieces.notes[0]
    assert torch.equal(pieces.x_train[:], whole.x_train)


def test_texts_are_read_whole_whatever_their_size(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("text,y\n" + "\n".join(f"a text of {n} words,{n % 2}" for n in range(100)))
    raw = read_raw(str(file), Reading(root=tmp_path, in_memory=0))
    assert (raw.content, raw.train.samples[3]) == ("texts", "a text of 3 words")


def test_a_run_in_pieces_learns_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.csv"
    file.write_text("\n".join(mixed_rows(400)))
    options = {"dataset": str(file), "label": "diagnosis", "clients": 2, "memory": 20,
               "data_root": str(tmp_path / "cache")}  # fmt: skip
    whole = ofcl.run(**options, out=tmp_path / "whole")
    monkeypatch.setattr(Reading, "in_memory", 0)
    monkeypatch.setattr(Reading.__init__, "__defaults__",
                        (*Reading.__init__.__defaults__[:-1], 0))  # fmt: skip
    pieces = ofcl.run(**options, out=tmp_path / "pieces")
    assert pieces.accuracy == whole.accuracy
    assert pieces.A == whole.A
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "pieces")]
    assert models[0] == models[1]
