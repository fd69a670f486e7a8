"""CIFAR's pickles are read without running their code."""

import pickle

import numpy as np
import pytest

from ofcl.data.named.cifar import read_pickle
from ofcl.errors import OfclError
from tests.support.official_files import cifar10, load


class Evil:
    def __reduce__(self):
        return (print, ("code of the pickle ran",))


def test_pickles_that_would_run_code_are_refused(tmp_path, capsys):
    cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    path.write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(OfclError, match="data_batch_3.*refers to builtins.print"):
        load("cifar10", tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", pickle.dumps([1, 2]), pickle.dumps({b"data": 3})],
    ids=["empty", "garbage", "list", "no labels"],
)
def test_damaged_batches_are_named(tmp_path, content):
    path = tmp_path / "batch"
    path.write_bytes(content)
    cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    with pytest.raises(OfclError, match="test_batch"):
        load("cifar10", tmp_path)


def test_arrays_of_numpy_two_are_read(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": np.arange(3)}))
    assert read_pickle(path)["data"].tolist() == [0, 1, 2]
