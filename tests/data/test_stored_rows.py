"""Tests of rows on the disk: read in any order, without taking memory for what lies between."""

import resource

import numpy as np

from ofcl.data.stored_rows import RowFile


def test_rows_in_any_order_and_twice(tmp_path):
    file = RowFile(tmp_path, 3)
    rows = np.arange(60.0).reshape(20, 3)
    file.append(rows[:7])
    file.append(rows[7:])
    for places in ([5, 6, 7, 2, 2, 19, 0], [3], list(range(20)), []):
        np.testing.assert_array_equal(file.read(np.array(places, dtype=int)), rows[places])


def test_memory_does_not_grow_with_the_file(tmp_path):
    file = RowFile(tmp_path, 64)
    block = np.zeros((2**14, 64))
    for _ in range(24):  # 200 MB
        file.append(block)
    file.read(np.arange(10))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file.read(np.arange(0, file.rows, 512))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB
