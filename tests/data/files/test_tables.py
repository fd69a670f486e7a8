"""Packed tables and Parquet."""

import bz2
import gzip
import lzma

import pyarrow
import pyarrow.parquet
import pytest

from ofcl import OfclError


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_packed_tables(tmp_path, read, suffix, pack):
    path = tmp_path / f"p.csv.{suffix}"
    path.write_bytes(pack.compress(b"a,label\n1,x\n3,y\n"))
    assert read(path).x_train.tolist() == [[-1], [1]]
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(OfclError, match=rf"p\.csv\.{suffix}' is damaged"):
        read(path)


def test_parquet(tmp_path, read):
    table = pyarrow.table({"x": [[1.0, 2.0], [3.0, 4.0], None], "y": [5, 6, 5]})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    with pytest.raises(OfclError, match=r"'p.parquet', line 3: column 'x' is not a list"):
        read(tmp_path / "p.parquet")
    data = read(tmp_path / "p.parquet", on_bad="skip")
    assert (data.labels, data.x_train.tolist()) == (("5", "6"), [[1, 2], [3, 4]])
