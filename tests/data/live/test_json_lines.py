"""Lines of JSON from files and pipes."""

import io
import os

import pytest

from ofcl import JsonLines, Reading
from ofcl.data.live.sample import StreamError
from ofcl.events import Skipped
from tests.support.live_streams import drain, first_numbers, lines, restart, stream, wait_for


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
