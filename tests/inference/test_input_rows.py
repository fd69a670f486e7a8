"""Inputs without labels: what a path is, and which lots it gives."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ofcl import OfclError
from ofcl.data.files.embedders import Embedder
from ofcl.data.options import Damage
from ofcl.data.sample_forms import ImageForm, TableForm, TextForm, VectorForm
from ofcl.inference.input_rows import read_lots

IMAGES = ImageForm((1, 2, 2), (0.5,), (0.5,))
ROWS = TableForm(("a", "b"), (0.0, 0.0), (1.0, 1.0))
TEXTS = TextForm(Embedder("minilm"), 384, "body")
WANTED = [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]


def write(folder, name):
    """The same three rows in any format."""
    path = folder / name
    comma = "a,b\n1,2\n3,4\n5,6\n"
    lines = '{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n\n{"a": 5, "b": 6}\n'
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(WANTED), path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(comma.encode()))
    else:
        path.write_text({".csv": comma, ".tsv": comma.replace(",", "\t")}.get(path.suffix, lines))
    return path


@pytest.mark.parametrize(("name", "places"), [
    ("t.csv", [2, 3, 4]), ("t.tsv", [2, 3, 4]), ("t.csv.gz", [2, 3, 4]), ("t.jsonl", [1, 2, 4]),
    ("t.parquet", [1, 2, 3]),
])  # fmt: skip
def test_a_table_in_lots(tmp_path, name, places):
    lots = read_lots(write(tmp_path, name), ROWS, 2, Damage())
    found = list(lots)
    assert [len(lot.inputs) for lot in found] == [2, 1]
    assert [place for lot in found for place in lot.inputs] == places
    rows = [{k: int(v) for k, v in row.items()} for lot in found for row in lot.samples]
    assert rows == WANTED
    assert found[0].where[1] == f"'{name}', line {places[1]}"
    assert len(lots) >= 2  # for the bar: by the lines of the file


def test_a_row_is_read_when_its_lot_is_asked_for(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "b": 2}\n' * 3 + "broken\n")
    lots = iter(read_lots(path, ROWS, 2, Damage()))
    assert len(next(lots).inputs) == 2
    with pytest.raises(OfclError, match=r"'t.jsonl', line 4: not JSON.*--on-bad skip"):
        next(lots)


def test_all_tables_of_a_folder_each_with_its_name(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", "u.csv")
    write(tmp_path, "t.jsonl")
    write(tmp_path, ".hidden.csv")
    found = [place for lot in read_lots(tmp_path, ROWS, 2, Damage()) for place in lot.inputs]
    assert found == ["deep/u.csv:2", "deep/u.csv:3", "deep/u.csv:4", "t.jsonl:1", "t.jsonl:2",
                     "t.jsonl:4"]  # fmt: skip


def test_texts_one_on_each_line(tmp_path):
    (tmp_path / "t.txt").write_text("one text\n\nanother, with a comma\n")
    (lot,) = read_lots(tmp_path / "t.txt", TEXTS, 9, Damage())
    assert (lot.inputs, lot.samples) == ([1, 3], ["one text", "another, with a comma"])
    with pytest.raises(OfclError, match="this model takes rows of numbers"):
        read_lots(tmp_path / "t.txt", ROWS, 9, Damage())


def test_vectors_of_an_array(tmp_path):
    np.savez(tmp_path / "v.npz", x_test=np.arange(6).reshape(3, 2))
    lots = list(read_lots(tmp_path / "v.npz", VectorForm(2), 2, Damage()))
    assert [lot.samples.tolist() for lot in lots] == [[[0, 1], [2, 3]], [[4, 5]]]
    assert lots[1].where == [f"'{tmp_path / 'v.npz'}', x_test, row 2"]
    with pytest.raises(OfclError, match="x_test: samples of shape 2 are given; .* of 3 numbers"):
        read_lots(tmp_path / "v.npz", VectorForm(3), 2, Damage())


def test_what_is_not_there_or_of_another_kind_is_named(tmp_path):
    with pytest.raises(OfclError, match="no file or folder"):
        read_lots(tmp_path / "nothing", ROWS, 2, Damage())
    with pytest.raises(OfclError, match="no images in"):
        read_lots(tmp_path, IMAGES, 2, Damage())
    with pytest.raises(OfclError, match="nothing in .* that this model takes: rows of numbers"):
        read_lots(tmp_path, ROWS, 2, Damage())
    with pytest.raises(OfclError, match="this model takes grey images of 2 × 2 pixels: a folder"):
        read_lots(write(tmp_path, "t.csv"), IMAGES, 2, Damage())
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    with pytest.raises(OfclError, match="cannot be read as npy"):
        read_lots(tmp_path / "bad.npy", IMAGES, 2, Damage())
    Path(tmp_path / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(OfclError, match="cannot be read as Parquet"):
        read_lots(tmp_path / "bad.parquet", ROWS, 2, Damage())
