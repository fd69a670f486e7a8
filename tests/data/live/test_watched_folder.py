"""Files that appear, grow or change in a watched folder."""

import os
import time

import numpy as np
import pytest
from PIL import Image

from ofcl.data.live import watched_folder
from ofcl.data.live.sample import StreamError
from tests.support.live_streams import drain, first_numbers, restart, stream, wait_for
from tests.support.watched_folders import append, watch, write_csv


def test_files_are_learned_as_they_appear(tmp_path, quickly):
    live = stream(watch(tmp_path), batch_size=2)
    assert not live.ready()
    write_csv(tmp_path / "b.csv", (1, 0, "x"), (2, 0, "y"), (3, 0, "x"))
    assert live.ready()
    assert next(live).x[:, 0].tolist() == [1, 2]
    assert not live.ready()
    write_csv(tmp_path / "a.csv", (4, 0, "z"))
    assert live.ready()
    assert next(live).x[:, 0].tolist() == [3, 4]
    assert live.state()["taken"] == {"b.csv": 3, "a.csv": 1}


def test_rows_that_are_added_to_a_table_are_learned(tmp_path, quickly):
    live = stream(watch(tmp_path), batch_size=2)
    write_csv(tmp_path / "a.csv", (1, 0, "x"), (2, 0, "y"))
    assert live.ready()
    assert next(live).x[:, 0].tolist() == [1, 2]
    with (tmp_path / "a.csv").open("a") as file:
        file.write("3,0,x\n4,0,y\n")
    assert wait_for(live)
    assert next(live).x[:, 0].tolist() == [3, 4]


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_every_row_of_a_table_that_grows_is_learned_once(tmp_path, quickly, batch_size, window):
    """Also those that wait for a batch, or for numbers to be standardised by."""
    live = stream(watch(tmp_path, idle=0.5), batch_size=batch_size, window=window)
    write_csv(tmp_path / "a.csv")
    found = []
    for n in range(0, 12, 2):
        append(tmp_path / "a.csv", f"{n},0,x\n{n + 1},0,y\n")
        found += [label for _, y, _ in drain(live) for label in y]
    time.sleep(0.5)
    assert wait_for(live)
    found += [label for _, y, _ in drain(live) for label in y]
    assert found == [0, 1] * 6


@pytest.mark.parametrize("batches", range(5))
@pytest.mark.parametrize("bad", [None, 9])
def test_a_table_that_has_grown_is_gone_on_with(tmp_path, quickly, batches, bad):
    """It was read to its end before, but not to its new one when the stream stops."""
    write_csv(tmp_path / "a.csv", *((n, 0, "x") for n in range(4)))
    live = stream(watch(tmp_path), batch_size=2)
    found = first_numbers(live)
    assert not live.ready()  # it has been looked at to the end
    append(tmp_path / "a.csv", "".join(f"{'oh' if n == bad else n},0,x\n" for n in range(4, 12)))
    if bad is None:
        for _ in range(batches):
            assert wait_for(live)
            found += next(live).x[:, 0].tolist()
        live = restart(live, watch(tmp_path), batch_size=2)
    else:
        for _ in range(1 + batches):
            with pytest.raises(StreamError, match="'a.csv', line 11"):
                while live.ready():
                    found += next(live).x[:, 0].tolist()
        write_csv(tmp_path / "a.csv", *((n, 0, "x") for n in range(12)))
    assert (batches == 4 and bad is None) or wait_for(live)
    assert found + first_numbers(live) == list(range(12))


def test_runs_and_images_without_a_class_are_no_samples(tmp_path, quickly):
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "settings.toml").write_text("")
    write_csv(tmp_path / "runs" / "one" / "x.csv", (1, 0, "x"))
    assert not stream(watch(tmp_path), batch_size=1).ready()
    Image.fromarray(np.zeros((9, 9), dtype=np.uint8)).save(tmp_path / "flat.png")
    with pytest.raises(StreamError, match="'flat.png' lies in no subfolder"):
        stream(watch(tmp_path), batch_size=1).ready()


def test_a_file_that_is_still_written_is_left_for_later(tmp_path, monkeypatch):
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
    monkeypatch.setattr(watched_folder, "SETTLED", 0.1)
    live = stream(watch(tmp_path), batch_size=1)
    for n in range(5):
        write_csv(tmp_path / "a.csv", *[(1, 0, "x")] * (n + 1))
        tomorrow = time.time() + 86400 + n  # whatever the clock says
        os.utime(tmp_path / "a.csv", (tomorrow, tomorrow))
        assert not live.ready()
        time.sleep(0.05)
    time.sleep(0.15)
    assert live.ready()


def test_hidden_and_partial_files_are_not_looked_at(tmp_path, quickly):
    for name in (".a.csv", "a.csv.tmp", "b.csv.part", "c.csv.partial", ".hidden/c.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_csv(tmp_path / name, (1, 0, "x"))
    assert not stream(watch(tmp_path), batch_size=1).ready()


def test_images_by_subfolder_and_arrays(tmp_path, quickly):
    for label, value in (("cat", 0), ("dog", 255)):
        (tmp_path / "images" / label).mkdir(parents=True)
        pixels = np.full((5, 5), value, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / label / "1.png")
    np.savez(tmp_path / "more.npz", x=np.zeros((1, 5, 5), dtype=np.uint8), y=np.array(["cat"]))
    live = stream(watch(tmp_path))
    assert live.ready()
    batch = next(live)
    assert batch.x.shape == (3, 1, 5, 5)
    assert batch.x[:, 0, 0, 0].tolist() == [-2, 2, -2]
    assert batch.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("batches", range(4))
def test_a_folder_goes_on_where_it_was(tmp_path, quickly, batches):
    rows = [(n, 0, "xy"[n % 2]) for n in range(8)]
    for file, part in (("a", rows[:5]), ("b", rows[5:6]), ("c", rows[6:])):
        write_csv(tmp_path / f"{file}.csv", *part)
    whole = drain(stream(watch(tmp_path, idle=0.0)))
    live = stream(watch(tmp_path, idle=0.0))
    first = []
    for _ in range(batches):
        assert live.ready()
        if live.next_task() is not None:
            batch = next(live)
            first.append((batch.x.tolist(), batch.y.tolist(), batch.task))
    other = restart(live, watch(tmp_path, idle=0.0))
    assert first + drain(other) == whole
