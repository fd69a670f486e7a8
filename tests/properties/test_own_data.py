"""Paths that lead nowhere, and the command line's one line about damaged data."""

import sys

import pytest

from ofcl import OfclError, load_dataset
from ofcl.cli import main as cli
from tests.support.own_data import RUINED


@pytest.mark.parametrize(
    "name", ["./no.csv", "~nobody-of-that-name/x.csv", "x" * 300, "x" * 300 + ".csv", "a\0b.csv"]
)
def test_places_that_there_are_not(name):
    with pytest.raises(OfclError, match=name[:5].replace("~", "").replace("\0", ".")):
        load_dataset(name)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "'t.csv' is empty"),
        ("t.csv", b"id,label\n1,a\nx,b\n2,b\n", "'t.csv', line 3: column 'id' is not a number"),
        ("t.csv", RUINED["open quote"], "'t.csv', line 5: unexpected end of data"),
        ("t.csv", RUINED["utf-16 without a mark"], "'t.csv', line 1: a zero byte"),
        ("t.jsonl", b'{"x": [1], "label": 1}\n[]\n', "'t.jsonl', line 2: not a JSON object"),
        ("t.npz", b"PK\3\4", "t.npz' cannot be read as npz"),
        ("t.parquet", b"PAR1", "'t.parquet' cannot be read as Parquet"),
        ("t.csv.gz", b"\x1f\x8b", "t.csv.gz' is damaged"),
        ("t.doc", b"", "what is it?"),
    ],
)
def test_the_command_line_says_it_in_one_line(tmp_path, monkeypatch, capsys, name, content, said):
    (tmp_path / name).write_bytes(content)
    arguments = ["run", "--dataset", str(tmp_path / name), "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["ofcl", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()
