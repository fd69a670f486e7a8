"""Streams that have no end: batches, tasks, new classes, damage, places to go on from."""

import io
import json
import os
import time

import numpy as np
import pytest
import torch
from PIL import Image

from ofcl import JsonLines, Reading, WatchedFolder
from ofcl.data.live import watched_folder
from ofcl.data.live.feeds import open_feed
from ofcl.data.live.form import Form, Pattern
from ofcl.data.live.iterator_feed import IteratorFeed
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.sample import StreamError
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.errors import OfclError
from ofcl.events import Appeared, Skipped


def stream(feed, batch_size=3, on_bad="stop", window=None, vocabulary=None):
    form = Form(Pattern(), window=window)
    return LiveStream(0, feed, form, vocabulary or Vocabulary(), batch_size, on_bad)


def drain(live):
    """All batches that are there, as (x, y, task)."""
    batches = []
    while live.ready() and live.next_task() is not None:
        task = live.next_task()
        batch = next(live)
        assert batch.task in (task, None)
        batches.append((batch.x.tolist(), batch.y.tolist(), batch.task))
    return batches


def vectors(*pairs):
    return [([float(x), 0.0], *rest) for x, *rest in pairs]


def test_samples_become_batches_and_labels_places():
    live = stream(IteratorFeed(vectors((1, "b"), (2, "a"), (3, "b"), (4, "c"))))
    assert drain(live) == [
        ([[1, 0], [2, 0], [3, 0]], [0, 1, 0], None),
        ([[4, 0]], [2], None),  # it ended in the middle of a batch
    ]
    assert live.next_task() is None
    assert live.notices() == [Appeared(0, "b", 0), Appeared(0, "a", 1), Appeared(0, "c", 2)]
    assert live.notices() == []


def test_batches_are_cut_again_and_all_kinds_of_values_are_taken():
    items = [
        (np.ones((4, 2)), np.array([1, 1, 2, 2])),
        (torch.ones(2, 2), torch.tensor([1, 2])),
        ([[1, 1]], ["1"]),
    ]
    batches = drain(stream(IteratorFeed(items)))
    assert [y for _, y, _ in batches] == [[0, 0, 1], [1, 0, 1], [0]]


def test_a_task_ends_where_its_name_changes():
    items = vectors((1, "a", "x"), (2, "a", "x"), (3, "b", "y"), (4, "a", "x"))
    live = stream(IteratorFeed(items))
    assert [(y, task) for _, y, task in drain(live)] == [([0, 0], 0), ([1], 1), ([0], 2)]


def test_none_means_that_there_is_nothing_now():
    live = stream(IteratorFeed([([1.0], 0), None, ([2.0], 0), ([3.0], 0)]))
    assert [live.ready(), live.ready()] == [False, True]
    assert next(live).x.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        ([1.0, float("nan")], "a", "a value is not a number"),
        ([1.0, 1e300], "a", "too large"),
        ([1.0], "a", "vectors of 1, but so far it was vectors of 2"),
        ("text", "a", "texts, but so far it was vectors of 2"),
        (np.zeros((4, 4)), "a", "images of 1 × 4 × 4"),
        ([1.0, "?"], "a", "neither a text, numbers nor an image"),
        ([1.0, 2.0], "", "the label is empty"),
        ([1.0, 2.0], 0.5, "0.5 is a measure"),
        ([1.0, 2.0], None, "the label is missing"),
    ],
)
def test_a_bad_sample_stops_or_is_left_out_and_counted(x, y, problem):
    items = [([1.0, 2.0], "a"), (x, y), ([3.0, 4.0], "b"), ([5.0, 6.0], "b")]
    with pytest.raises(StreamError, match=problem):
        drain(stream(IteratorFeed(items)))
    live = stream(IteratorFeed(items), on_bad="skip")
    assert drain(live) == [([[1, 2], [3, 4], [5, 6]], [0, 1, 1], None)]
    (skipped,) = [notice for notice in live.notices() if isinstance(notice, Skipped)]
    assert (skipped.client, skipped.row) == (0, 1)
    assert problem in skipped.problem


def test_bad_samples_at_the_end_are_told_too():
    live = stream(IteratorFeed([([1.0], "a"), ([None], "a")]), on_bad="skip")
    assert len(drain(live)) == 1
    assert [type(notice) for notice in live.notices()] == [Skipped, Appeared]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "not a int"),
        ((1, 2, 3, 4), "not a tuple"),
        (([1], [1, 2]), "1 samples with 2 labels"),
        (([[1.0], [2.0]], ["a", "b"], [1, 2, 3]), "2 labels and 3 tasks"),
    ],
)
def test_what_is_no_sample_at_all_is_refused_or_left_out(item, problem):
    with pytest.raises(StreamError, match=problem):
        drain(stream(IteratorFeed([item])))
    live = stream(IteratorFeed([item, ([1.0], "a")]), on_bad="skip")
    assert drain(live) == [([[1]], [0], None)]


def test_a_batch_may_have_a_task_for_each_sample():
    item = ([[1.0], [2.0], [3.0]], ["a", "b", "a"], np.array([0, 0, 1]))
    assert [task for _, _, task in drain(stream(IteratorFeed([item])))] == [0, 1]


def test_what_goes_wrong_in_an_iterator_is_a_stream_s_error():
    def broken():
        yield [1.0], "a"
        raise ConnectionError("the line is dead")

    with pytest.raises(StreamError, match="client 0: its stream failed: ConnectionError: the line"):
        drain(stream(IteratorFeed(broken())))


def test_a_task_may_be_any_number_but_must_be_one():
    items = [([1.0], "a", np.int64(3)), ([1.0], "a", np.float32(3)), ([1.0], "a", float("nan"))]
    live = stream(IteratorFeed(items), on_bad="skip")
    assert [y for _, y, _ in drain(live)] == [[0, 0]]
    json.dumps(live.state())  # plain values only


def test_images_in_any_layout():
    form = Form(Pattern())
    grey = form.check(np.full((4, 6), 255, dtype=np.uint8))
    assert grey.shape == (1, 4, 6)
    assert form.to_tensor([grey]).unique().tolist() == [2.0]  # (1 − 0.5) / 0.25
    colour = Form(Pattern()).check(np.full((4, 6, 3), 0.5))
    assert colour.shape == (3, 4, 6)
    assert colour.dtype == np.uint8
    assert colour.max() == 128


def test_texts_are_embedded_as_they_come(tmp_path, monkeypatch):
    asked = []

    def encode(texts):
        asked.append(texts)
        return np.array([[len(t), 1] for t in texts], dtype=np.float32)

    monkeypatch.setattr("ofcl.data.files.embeddings.load_encoder", lambda embedder: encode)
    form = Form(Pattern(), embedder="some/model", root=tmp_path)
    live = LiveStream(0, IteratorFeed([("hello", "a"), ("you", "b"), ("hello", "a")]), form,
                      Vocabulary(), batch_size=2)  # fmt: skip
    assert drain(live) == [([[5, 1], [3, 1]], [0, 1], None), ([[5, 1]], [0], None)]
    assert asked == [["hello", "you"]]  # the third was known
    assert form.empty_dataset("stream", ()).shape == (2,)


def test_numbers_are_standardised_by_the_first_window():
    items = [([float(x), 7.0], "a") for x in (1, 3, 1, 3, 5)]
    live = stream(IteratorFeed(items), batch_size=2, window=4)
    x = [x for x, _, _ in drain(live)]
    assert x == [[[-1, 0], [1, 0]], [[-1, 0], [1, 0]], [[3, 0]]]


def test_a_window_that_never_fills_is_used_at_the_end():
    live = stream(IteratorFeed([([1.0], "a"), ([3.0], "a")]), window=100)
    assert [x for x, _, _ in drain(live)] == [[[-1], [1]]]


# Going on from a place


def restart(live, feed, **options):
    """Another stream that goes on where one was."""
    other = stream(feed, **options)
    other._vocabulary = Vocabulary(live._vocabulary.labels)
    other.form._pattern.kind, other.form._pattern.shape = "vector", (2,)
    other.load_state(json.loads(json.dumps(live.state(), default=lambda x: x.tolist())))
    return other


ITEMS = vectors(*((n, "ab"[n % 2], n // 4) for n in range(11)))


@pytest.mark.parametrize("batches", range(5))
def test_a_function_is_asked_for_what_comes_behind(batches):
    def open_at(start):
        return iter(ITEMS[start:])

    whole = drain(stream(IteratorFeed(open_at)))
    live = stream(IteratorFeed(open_at))
    first = []
    for _ in range(batches):
        assert live.ready()
        batch = next(live)
        first.append((batch.x.tolist(), batch.y.tolist(), batch.task))
    assert first + drain(restart(live, IteratorFeed(open_at))) == whole


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_an_iterator_goes_on_and_what_it_had_brought_is_not_lost(at_once):
    """Also when it brings batches that are cut in the middle."""
    rows = vectors(*((n, "a") for n in range(21)))
    items = iter(
        [([x for x, _ in part], [y for _, y in part])
         for part in (rows[n : n + at_once] for n in range(0, 21, at_once))]
    )  # fmt: skip
    live = stream(IteratorFeed(items), batch_size=4)
    assert live.ready()
    first = next(live).x[:, 0].tolist()
    other = restart(live, IteratorFeed(items), batch_size=4)
    assert first + [x[0] for batch, _, _ in drain(other) for x in batch] == list(range(21))


@pytest.mark.parametrize("batches", range(4))
def test_a_list_is_opened_behind_what_was_learned(batches):
    live = stream(IteratorFeed(ITEMS))
    first = []
    for _ in range(batches):
        assert live.ready()
        first += next(live).x[:, 0].tolist()
    other = restart(live, IteratorFeed(ITEMS))
    assert first + [x[0] for batch, _, _ in drain(other) for x in batch] == list(range(11))


def test_a_list_that_is_too_short_to_go_on_from():
    live = stream(IteratorFeed(ITEMS))
    assert live.ready()
    next(live)
    with pytest.raises(StreamError, match="there are 2 samples, but 3 were learned"):
        restart(live, IteratorFeed(ITEMS[:2])).ready()


# Standard input


def lines(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def wait_for(live):
    for _ in range(200):
        if live.ready():
            return True
        time.sleep(0.01)
    return False


def test_json_lines():
    file = io.BytesIO(lines(*({"x": [n, 1], "y": n % 2} for n in range(4))))
    live = stream(JsonLines(file, Reading()), batch_size=4)
    assert wait_for(live)
    assert next(live).y.tolist() == [0, 1, 0, 1]


def test_json_lines_with_named_columns_and_a_task():
    rows = [{"age": n, "pulse": 1, "task": n // 2, "label": "ab"[n % 2]} for n in range(4)]
    live = stream(JsonLines(io.BytesIO(lines(*rows)), Reading(), task="task"))
    assert wait_for(live)
    batch = next(live)
    assert (batch.x.shape, batch.task) == ((2, 2), 0)
    assert live.next_task() == 1


def test_bad_lines_are_named(tmp_path):
    good = {"x": [1, 2], "y": "a"}
    content = (
        lines(good) + b"{broken\n" + lines({"x": [1, 2]}, {"z": 1}, [1]) + b"\xff\n" + lines(good)
    )
    with pytest.raises(StreamError, match="standard input, line 2: not JSON"):
        wait_for(stream(JsonLines(io.BytesIO(content), Reading())))
    live = stream(JsonLines(io.BytesIO(content), Reading()), on_bad="skip")
    assert wait_for(live)
    assert next(live).y.tolist() == [0, 0]
    problems = [n.problem for n in live.notices() if isinstance(n, Skipped)]
    assert [problem.split(":")[0] for problem in problems] == [
        f"standard input, line {n}" for n in (2, 3, 4, 5, 6)
    ]


def test_a_pipe_is_read_as_it_comes_and_nothing_of_it_is_lost():
    """A real pipe; half a line, and more lines than a batch, are kept over a restart."""
    reader, writer = os.pipe()
    rows = lines(*({"x": [n, 0], "y": "a"} for n in range(7)))
    with open(reader, "rb") as file:
        live = stream(JsonLines(file, Reading()))
        assert not live.ready()
        os.write(writer, rows[:-9])  # the last line is cut short
        assert live.ready()
        first = next(live).x[:, 0].tolist()
        os.write(writer, rows[-9:])
        os.close(writer)
        other = restart(live, JsonLines(file, Reading()))
        assert first + [x[0] for batch, _, _ in drain(other) for x in batch] == list(range(7))


def test_input_that_brings_nothing_new_does_not_end_a_stream():
    rows = lines(*({"x": [n, 0], "y": "a"} for n in range(3)))
    live = stream(JsonLines(io.BytesIO(rows), Reading()))
    assert wait_for(live)
    next(live)
    with pytest.raises(StreamError, match="nothing behind the 3 lines"):
        restart(live, JsonLines(io.BytesIO(b""), Reading())).ready()


def test_an_empty_line_says_that_input_has_ended():
    """What was kept of the pipe is learned then."""
    reader, writer = os.pipe()
    os.write(writer, lines(*({"x": [n, 0], "y": "a"} for n in range(4))))
    with open(reader, "rb") as file:
        live = stream(JsonLines(file, Reading()))
        assert next(live).x[:, 0].tolist() == [0, 1, 2]
        assert not live.ready()
        os.close(writer)
        reader, writer = os.pipe()
        os.write(writer, b"\n")
        os.close(writer)
        with open(reader, "rb") as file:
            assert first_numbers(restart(live, JsonLines(file, Reading()))) == [3]


def test_what_was_kept_of_a_pipe_is_not_learned_twice_from_its_file():
    rows = lines(*({"x": [n, 0], "y": "a"} for n in range(5)))
    reader, writer = os.pipe()
    os.write(writer, rows)
    with open(reader, "rb") as file:
        live = stream(JsonLines(file, Reading()))
        assert next(live).x[:, 0].tolist() == [0, 1, 2]
        assert not live.ready()
    os.close(writer)
    assert first_numbers(restart(live, JsonLines(io.BytesIO(rows), Reading()))) == [3, 4]


def test_a_file_goes_on_where_it_was():
    rows = [{"x": [n, 0], "y": "a"} for n in range(6)]
    file = io.BytesIO(lines(*rows))
    live = stream(JsonLines(file, Reading()))
    assert wait_for(live)
    next(live)
    other = restart(live, JsonLines(io.BytesIO(lines(*rows)), Reading()))
    assert wait_for(other)
    assert next(other).x[:, 0].tolist() == [3, 4, 5]


# Watched folders


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)


def watch(folder, idle=None, **how):
    return WatchedFolder(folder, Reading(**how), idle=idle)


def write_csv(path, *rows):
    path.write_text("u,v,label\n" + "".join(f"{u},{v},{label}\n" for u, v, label in rows))


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


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def first_numbers(live):
    """The first number of every sample that is there."""
    return [int(x[0]) for batch, _, _ in drain(live) for x in batch]


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


def test_of_a_pipe_what_cannot_be_used_stays_in_the_way():
    rows = lines({"x": [1, 0], "y": "a"}) + b"oh\n" + lines({"x": [2, 0], "y": "a"})
    reader, writer = os.pipe()
    os.write(writer, rows)
    with open(reader, "rb") as file:
        live = stream(JsonLines(file, Reading()))
        for _ in range(3):
            with pytest.raises(StreamError, match="standard input, line 2"):
                live.ready()
    os.close(writer)


def test_a_reading_again_does_not_bring_what_is_pending_twice(tmp_path):
    """A list whose later items fail a few times, such as one that is fetched."""
    fails = [True, True, False]

    def items(start):
        yield from ITEMS[start:2]
        if fails.pop(0):
            raise OSError("no network")
        yield from ITEMS[max(start, 2) : 4]

    live = stream(IteratorFeed(items))
    for _ in range(2):
        with pytest.raises(StreamError, match="OSError: no network"):
            live.ready()
    assert first_numbers(live) == [0, 1, 2, 3]


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


def test_runs_and_images_without_a_class_are_no_samples(tmp_path, quickly):
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "settings.toml").write_text("")
    write_csv(tmp_path / "runs" / "one" / "x.csv", (1, 0, "x"))
    assert not stream(watch(tmp_path), batch_size=1).ready()
    Image.fromarray(np.zeros((9, 9), dtype=np.uint8)).save(tmp_path / "flat.png")
    with pytest.raises(StreamError, match="'flat.png' lies in no subfolder"):
        stream(watch(tmp_path), batch_size=1).ready()


def test_a_task_column_that_is_not_there_is_refused(tmp_path, quickly):
    write_csv(tmp_path / "a.csv", (1, 0, "x"))
    feed = WatchedFolder(tmp_path, Reading(), task="dya")
    with pytest.raises(StreamError, match="has no column 'dya'"):
        stream(feed).ready()


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


def test_streams_by_name(tmp_path):
    assert isinstance(open_feed(f"watch:{tmp_path}", Reading(), None, None), WatchedFolder)
    with pytest.raises(OfclError, match="not a folder"):
        open_feed("watch:/nowhere", Reading(), None, None)
    with pytest.raises(OfclError, match="unknown stream 'kafka:x'"):
        open_feed("kafka:x", Reading(), None, None)
