"""Tests of CSV files in pieces: pyarrow gives the cells that Python's csv module gives."""

import importlib.util
import math
import random
from pathlib import Path

import numpy as np
import pytest

from ofcl.data.files import csv_pieces
from ofcl.data.files.cell_arrays import ArrowCells, ListedCells
from ofcl.data.options import Damage
from ofcl.errors import OfclError

ROWS = [f"{n / 7},ward {n % 3},yes" for n in range(60)]


def read(path: Path) -> tuple[list[int], dict[str, list[str]], list[str], int]:
    """Reads a file; returns lines, cells, problems, and how many pieces pyarrow has read."""
    lines, columns, by_arrow = [], {}, 0
    damage = Damage("skip")
    for piece in csv_pieces.csv_pieces(path, damage):
        lines += piece.lines
        for name, cells in piece.columns.items():
            columns.setdefault(name, []).extend(cells.texts())
            by_arrow += isinstance(cells, ArrowCells)
    return lines, columns, damage.problems, by_arrow


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Checks that a file is the same with and without pyarrow; returns what pyarrow has read."""
    monkeypatch.setattr(csv_pieces, "BLOCK", 256)
    with_arrow = read(path)
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        without = read(path)
    assert with_arrow[:3] == without[:3]
    assert without[3] == 0
    assert len(without[0]) > 30
    return with_arrow[3]


@pytest.mark.parametrize(
    ("text", "all_by_arrow"),
    [
        ("a,b,c\n" + "\n".join(ROWS), True),
        ("a,b,c\n" + "\n".join(ROWS) + "\n\n", False),
        ("\n\na;b;c\r\n" + "\r\n".join(r.replace(",", ";") for r in ROWS) + "\r\n", True),
        ("a,b,c\n" + "\n".join(f'{r.split(",")[0]},"x, ""y"" {r}",""' for r in ROWS), True),
        ("a,b,c\n" + "\n".join([*ROWS[:40], '1,"over\ntwo lines",x', *ROWS[40:]]), False),
        ("a,b,c\n" + "\n".join([*ROWS[:40], '1,5" pipe,x', *ROWS[40:]]), False),
        ("a,b,c\n" + "\n".join([*ROWS[:40], '1,"a"b,x', *ROWS[40:]]), False),
        ("a,b,c\n" + "\n".join([*ROWS[:40], "1,2", ",,", " , ,", *ROWS[40:]]), False),
        ("a,b,c\n" + "\n".join([*ROWS[:40], "1,\rx,2", *ROWS[40:]]), False),
        ('"a","b\nb",c\n' + "\n".join(ROWS), False),
        (",,\na,b,c\n" + "\n".join(ROWS), False),
    ],
)
def test_both_ways_read_the_same_cells(tmp_path, monkeypatch, text, all_by_arrow):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    by_arrow = both(path, monkeypatch)
    if all_by_arrow:
        assert by_arrow >= 3 * 4


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_letters_of_all_encodings(tmp_path, monkeypatch, encoding):
    path = tmp_path / "t.csv"
    rows = [*ROWS[:30], "1,Übung,ja", *ROWS[30:], "2,café,no"]
    path.write_bytes(("a,b,c\n" + "\n".join(rows)).encode(encoding))
    by_arrow = both(path, monkeypatch)
    assert (by_arrow > 0) == (encoding != "utf-16")
    assert {"Übung", "café"} < set(read(path)[1]["b"])


def test_what_stops_a_file_stops_it_in_both_ways(tmp_path, monkeypatch):
    for odd in (b"1,\0,2", b'1,"open,2'):
        path = tmp_path / "t.csv"
        path.write_bytes("\n".join(["a,b,c", *ROWS]).encode() + b"\n" + odd)
        messages = []
        for found in (importlib.util.find_spec, lambda name: None):
            monkeypatch.setattr(importlib.util, "find_spec", found)
            with pytest.raises(OfclError) as error:
                for _ in csv_pieces.csv_pieces(path, Damage("stop")):
                    pass
            messages.append(str(error.value))
        assert messages[0] == messages[1]
        assert "line 62" in messages[0]


def test_numbers_are_those_of_python_to_the_last_bit():
    pa = pytest.importorskip("pyarrow")
    draw = random.Random(0)
    texts = [repr(draw.uniform(-1, 1) * 10 ** draw.randint(-300, 300)) for _ in range(500)]
    texts += [f"{draw.random():.25f}" for _ in range(500)]
    texts += ["0.1", "1e-320", "-0.0", "1e400", "inf", "5e-324", "123456789012345678901234567890"]
    found = ArrowCells(pa.array(texts)).numbers(gaps=False)
    assert found.tobytes() == np.array([float(text) for text in texts]).tobytes()
    for odd in (["1", "+2", "1_000", " 3 "], ["1", "", "NA", "nan", "-"], ["1", "x"]):
        for gaps in (True, False):
            one, other = ListedCells(odd), ArrowCells(pa.array(odd))
            assert (one.numbers(gaps) is None) == (other.numbers(gaps) is None)
            if one.numbers(gaps) is not None:
                np.testing.assert_array_equal(one.numbers(gaps), other.numbers(gaps))
    assert math.isnan(ArrowCells(pa.array(["1", "NA"])).numbers(gaps=True)[1])


def test_different_cells_come_in_the_order_of_their_first_places():
    pa = pytest.importorskip("pyarrow")
    cells = ["b", "a", "", "b", "c", "a"]
    for kind in (ListedCells(cells), ArrowCells(pa.array(cells))):
        different, places = kind.different()
        assert (different, places.tolist()) == (["b", "a", "", "c"], [0, 1, 2, 0, 3, 1])
