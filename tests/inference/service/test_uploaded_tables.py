"""Tables of strangers."""

import io
import resource

import pyarrow
import pytest
from pyarrow import parquet

from ofcl.errors import OfclError
from ofcl.inference.service.uploaded_tables import table_rows


def as_parquet(columns, **how):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, **how)
    return file.getvalue()


def test_only_the_needed_rows_and_columns_are_read():
    data = as_parquet({"a": list(range(100)), "b": ["text"] * 100, "c": [[1.5, 2.0]] * 100})
    assert table_rows("t.parquet", data, ("c", "a"), 2) == [
        {"c": [1.5, 2.0], "a": 0},
        {"c": [1.5, 2.0], "a": 1},
    ]


def test_a_missing_column_is_named():
    with pytest.raises(OfclError, match="column 'b' is missing; it has a, c"):
        table_rows("t.parquet", as_parquet({"a": [1], "c": [2]}), ("a", "b"), 10)


def long_text():
    """The same long text in every row, which is stored once."""
    text = pyarrow.array(["x" * 5_000_000])
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1000), text)


def long_list():
    """One row with a list of many numbers, which are all the same."""
    return pyarrow.ListArray.from_arrays([0, 15_000_000], pyarrow.repeat(1.0, 15_000_000))


@pytest.mark.parametrize("column", [long_text, long_list])
def test_what_unpacks_to_much_is_refused(column):
    data = as_parquet({"a": column()}, compression="zstd", use_dictionary=column is long_text)
    assert len(data) < 2**20
    with pytest.raises(OfclError, match="unpacks to too much"):
        table_rows("t.parquet", data, ("a",), 1000)
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    assert child < 2000  # MiB, of all children of this process so far


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_what_is_no_table_is_refused(data):
    with pytest.raises(OfclError, match="cannot be read as Parquet"):
        table_rows("t.parquet", data, ("a",), 1000)


def test_only_the_first_lines_are_read():
    data = b"a,b\n" + b"1,2\n" * 5 + b'3,"never closed\n' * 3
    assert table_rows("t.csv", data, ("a",), 5) == [{"a": "1", "b": "2"}] * 5
    with pytest.raises(OfclError, match="line 7"):
        table_rows("t.csv", data, ("a",), 6)
