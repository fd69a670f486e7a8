"""Samples of files: the meaning of columns, damaged files and lines."""

import os
import time

import numpy as np
import pytest
from PIL import Image

from ofcl import Reading, WatchedFolder
from ofcl.data.live.sample import StreamError
from ofcl.events import Skipped
from tests.support.live_streams import drain, first_numbers, restart, stream, wait_for
from tests.support.watched_folders import append, watch, write_csv


@pytest.mark.parametrize("good_before", [0, 1, 3])
def test_a_bad_row_stays_in_the_way_until_it_is_mended(tmp_path, quickly, good_before):
    """Of whatever was pending nothing is lost, and nothing comes twice."""
    rows = [(n, 0, "x") for n in range(good_before)]
    write_csv(tmp_path / "a.csv", *rows, ("oh", 0, "x"), (8, 0, "x"), (9, 0, "x"))
    live = stream(watch(tmp_path), batch_size=2)
    found = []
    for _ in range(3):
        with pytest.raises(StreamError, match="'a.csv', line"):
            while live.ready():
                found += next(live).x[:, 0].tolist()
    write_csv(tmp_path / "a.csv", *rows, (7, 0, "x"), (8, 0, "x"), (9, 0, "x"))
    assert wait_for(live)
    found += first_numbers(live)
    append(tmp_path / "a.csv", "10,0,x\n")
    assert (found + first_numbers(live))[: good_before + 3] == [*range(good_before), 7, 8, 9]


def spoiled(kind, path):
    """Spoils a file for a moment; gives what mends it."""
    whole = path.read_bytes()
    path.write_bytes({"header": whole.replace(b"v,", b"w,", 1), "byte": whole + b"3,\xff,x\n",
                      "half": whole[: len(whole) // 2]}[kind])  # fmt: skip
    return lambda: path.write_bytes(whole)


@pytest.mark.parametrize(
    ("kind", "name"), [("header", "b.csv"), ("byte", "b.csv"), ("half", "cat/1.png")]
)
def test_a_file_that_was_damaged_for_a_moment_is_read_whole(tmp_path, quickly, kind, name):
    path = tmp_path / name
    if kind == "half":
        path.parent.mkdir()
        Image.fromarray(np.zeros((9, 9), dtype=np.uint8)).save(path)
    else:
        write_csv(tmp_path / "a.csv", (1, 0, "x"))
        write_csv(path, (2, 0, "x"), (3, 0, "y"), (4, 0, "x"))
    mend = spoiled(kind, path)
    live = stream(watch(tmp_path, on_bad="skip"), batch_size=1, on_bad="skip")
    before = drain(live)
    assert [n.source for n in live.notices() if isinstance(n, Skipped)] == [name]
    time.sleep(0.01)  # so that the time of change is another
    mend()
    after = drain(live)
    assert not [n for n in live.notices() if isinstance(n, Skipped)]
    if kind == "half":
        assert (len(before), len(after)) == (0, 1)
    else:
        assert [x[0][0] for x, _, _ in before + after] == [1, 2, 3, 4]


@pytest.mark.parametrize("stop", [None, 0, 1, 2, 3])
def test_damaged_lines_are_counted_once_also_those_added_later(tmp_path, quickly, stop):
    """And also when another process goes on in the middle."""
    path, told, learned = tmp_path / "a.csv", [], []

    def go_on(live, batches=99):
        while batches and live.ready() and live.next_task() is not None:
            learned.extend(next(live).x[:, 0].tolist())
            batches -= 1
        told.extend(n.problem.split(": ")[0] for n in live.notices() if isinstance(n, Skipped))

    def opened():
        return watch(tmp_path, on_bad="skip")

    path.write_text("u,v,label\n0\n1,0,x\n2\n2,0,x\n3\n4,0,x\n4\n4,4\n")
    live = stream(opened(), batch_size=1, on_bad="skip")
    go_on(live, 99 if stop is None else stop)
    if stop is not None:
        live = restart(live, opened(), batch_size=1, on_bad="skip")
        go_on(live)
    append(path, "5,0\n6,0,x\n7,0,x\n8,0,x,y\n")
    go_on(live)
    live = restart(live, opened(), batch_size=1, on_bad="skip")
    append(path, "9\n")
    go_on(live)
    assert learned == [1, 2, 4, 6, 7]
    assert told == [f"'a.csv', line {line}" for line in (2, 4, 6, 8, 9, 10, 13, 14)]


def test_a_task_column_that_is_not_there_is_refused(tmp_path, quickly):
    write_csv(tmp_path / "a.csv", (1, 0, "x"))
    feed = WatchedFolder(tmp_path, Reading(), task="dya")
    with pytest.raises(StreamError, match="has no column 'dya'"):
        stream(feed).ready()


def test_the_first_table_says_what_columns_mean(tmp_path, quickly):
    write_csv(tmp_path / "1.csv", (1, 0, "x"))
    (tmp_path / "2.csv").write_text("u,w,label\n1,2,x\n")  # another column
    (tmp_path / "3.csv").write_text("label,v,u\nx,8,9\n")  # another order
    with pytest.raises(StreamError, match="'2.csv' has no column 'v'; it has u, w, label"):
        drain(stream(watch(tmp_path)))
    live = stream(watch(tmp_path, idle=0.0), on_bad="skip")
    assert drain(live) == [([[1, 0], [9, 8]], [0, 0], None)]


def test_damaged_files_are_named_and_can_be_left_out(tmp_path, quickly):
    (tmp_path / "0" / "cat").mkdir(parents=True)
    Image.fromarray(np.zeros((9, 9), dtype=np.uint8)).save(tmp_path / "0" / "cat" / "1.png")
    whole = (tmp_path / "0" / "cat" / "1.png").read_bytes()
    (tmp_path / "0" / "cat" / "2.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "0" / "cat" / "3.png").write_bytes(b"")
    (tmp_path / "1.npz").write_bytes(b"PK nothing")
    (tmp_path / "2.csv").write_text("")
    (tmp_path / "3.txt").write_text("hello")
    np.savez(tmp_path / "4.npz", x=np.zeros((2, 2)), y=np.array(1))
    with pytest.raises(StreamError, match=r"2\.png"):
        drain(stream(watch(tmp_path)))
    live = stream(watch(tmp_path, idle=0.0, on_bad="skip"), on_bad="skip")
    assert [y for _, y, _ in drain(live)] == [[0]]
    sources = [n.source for n in live.notices() if isinstance(n, Skipped)]
    assert sources == [
        os.path.join("0", "cat", "2.png"), os.path.join("0", "cat", "3.png"),
        "1.npz", "2.csv", "3.txt", "4.npz",
    ]  # fmt: skip


def test_ragged_lines_of_a_table_are_each_counted(tmp_path, quickly):
    (tmp_path / "a.csv").write_text("u,v,label\n1,2,x\n3\n4,5,x\n6,7,8,9\n10,nan,x\n")
    live = stream(watch(tmp_path, idle=0.0, on_bad="skip"), on_bad="skip")
    assert [x for x, _, _ in drain(live)] == [[[1, 2], [4, 5]]]
    skipped = [n for n in live.notices() if isinstance(n, Skipped)]
    assert [n.problem.split(": ")[0] for n in skipped] == [
        f"'a.csv', line {line}" for line in (3, 5, 6)
    ]
