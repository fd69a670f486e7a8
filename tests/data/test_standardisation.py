"""Columns of tables are standardised."""

import pytest
import torch

from ofcl.data.options import Subset


def test_columns_are_standardised_by_rows_from_all_over(tmp_path, read):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "train.csv").write_text("a,b,label\n1,0.1,x\n100,0.3,x\n3,0.1,y\n")
    (tmp_path / "t" / "test.csv").write_text("label,b,a\nx,0.1,2\ny,1.1,5\n")
    data = read(tmp_path / "t", window=2)
    assert data.x_train.tolist() == [[-1, 0], [98, pytest.approx(0.2)], [1, 0]]
    assert data.x_test.tolist() == [[0, 0], [3, 1]]
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0, 0, 1], [0, 1])


def test_a_subset_of_each_class_leaves_columns_standardised(tmp_path, read):
    rows = [f"{100 * (n % 4)},{n % 4}" for n in range(400)]
    (tmp_path / "t.csv").write_text("a,label\n" + "\n".join(rows))
    data = read(tmp_path / "t.csv", subset=Subset(train_per_class=60, test_per_class=3), window=50)
    assert abs(data.x_train.mean()) < 0.2
    assert abs(data.x_train.std() - 1) < 0.2
    assert data.y_test.bincount().tolist() == [3] * 4


def test_a_column_that_does_not_vary_is_only_shifted(tmp_path, read):
    """Its mean is rounded, so that its deviation in the window is 7e-17 rather than 0."""
    rows = [f"{i},0.1,{'xy'[i % 2]}\n" for i in range(200)]
    (tmp_path / "c.csv").write_text("a,b,label\n" + "".join(rows) + "200,1.1,x\n")
    data = read(tmp_path / "c.csv", test_share=0.1, columns=("a", "b"))
    both = torch.cat([data.x_train, data.x_test])[:, 1]
    assert both.sort().values.tolist() == [0] * 200 + [1]
