"""The meaning of columns."""

import pytest
import torch

from ofcl import OfclError


def test_chosen_columns_and_other_delimiters(tmp_path, read):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfid;Kind;n\r\n1;u;5\r\n2;v;7\r\n3;u;5\r\n")
    data = read(tmp_path / "t.csv", label="Kind", columns=("n",), window=3)
    assert data.labels == ("u", "v")
    assert torch.cat([data.x_train, data.x_test]).tolist() == [[-1], [1], [-1]]
    with pytest.raises(OfclError, match="no column 'kind'; it has id, Kind, n"):
        read(tmp_path / "t.csv", label="kind")
    with pytest.raises(OfclError, match="cannot be learnt from itself"):
        read(tmp_path / "t.csv", label="n", columns=("n", "id"))


def test_the_index_that_pandas_writes_is_not_a_column(tmp_path, read):
    (tmp_path / "t.csv").write_text(",a,label\n0,1,x\n1,3,y\n")
    assert read(tmp_path / "t.csv").x_train.tolist() == [[-1], [1]]


def test_decimal_commas_are_numbers(tmp_path, read):
    (tmp_path / "t.csv").write_text("a;label\n1,5;x\n2,5;y\n")
    assert read(tmp_path / "t.csv").x_train.tolist() == [[-1], [1]]
