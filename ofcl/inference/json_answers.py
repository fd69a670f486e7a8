"""Lines of JSON, answered line by line as they come through a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ofcl.bundle.given_samples import UnusableSample, decode
from ofcl.bundle.trained_model import TrainedModel
from ofcl.data.files.json_rows import parse_json_row
from ofcl.data.files.text_lines import decode_line
from ofcl.data.sample_forms import ImageForm
from ofcl.errors import OfclError
from ofcl.inference.answer_files import json_line
from ofcl.inference.answering import Asked, Ready, answer_rows
from ofcl.inference.input_rows import Lot

CHUNK = 2**16  # bytes that are read at once
MOST_BYTES = 64 * 2**20  # of a line
SOURCE = "standard input"


def answer_lines(
    model: TrainedModel, descriptor: int, asked: Asked, write: Callable[[str], None]
) -> tuple[int, int]:
    """Answers every line of a pipe or file as soon as it is there, in the order of the lines.

    Lines that came together go through the model together. A line that cannot be used is answered
    with an `error`, and does not end it.

    Args:
        model: The model.
        descriptor: The file descriptor to read from.
        asked: The columns that are asked for.
        write: Is given the answer to each line, and must not keep it back.

    Returns:
        The number of lines that were answered, and of those that could not be used.
    """
    answered = failed = 0
    number = 0
    for lines in _lines_together(descriptor):
        numbered = list(enumerate(lines, number + 1))
        number += len(lines)
        filled = [(n, line) for n, line in numbered if line.strip()]
        for start in range(0, len(filled), 256):
            answers = _answer(model, filled[start : start + 256], asked)
            write("".join(json_line(answer) for answer in answers))
            failed += sum("error" in answer for answer in answers)
            answered += len(answers)
    return answered, failed


def _lines_together(descriptor: int) -> Iterator[list[bytes]]:
    """Yields the complete lines that are there, and waits for more.

    Reads from the descriptor: a buffered file would wait until a whole block has come.

    Raises:
        OfclError: If a line is longer than any sample.
    """
    left = b""
    while more := os.read(descriptor, CHUNK):
        *lines, left = (left + more).split(b"\n") if b"\n" in more else (left + more,)
        if len(left) > MOST_BYTES:
            raise OfclError(f"a line of more than {MOST_BYTES} bytes on standard input")
        if lines:
            yield lines
    if left:
        yield [left]


def _answer(
    model: TrainedModel, numbered: Sequence[tuple[int, bytes]], asked: Asked
) -> list[dict[str, Any]]:
    """Answers some lines.

    Args:
        model: The model.
        numbered: The lines with their numbers, counted from 1.
        asked: The columns that are asked for.

    Returns:
        For each line the values by column, or its number and an `error`.
    """
    problems: dict[int, str] = {}
    rows: dict[int, dict[str, Any]] = {}
    samples: dict[int, Any] = {}
    for number, line in numbered:
        try:
            rows[number] = parse_json_row(decode_line(SOURCE, number, line))
            samples[number] = _sample(model, rows[number])
        except UnusableSample as error:
            problems[number] = error.problem
        except (ValueError, OfclError) as error:
            problems[number] = str(error)
    good = [number for number in samples if number not in problems]
    answers: dict[int, dict[str, Any]] = {}
    if good:
        lot = Lot(good, [samples[n] for n in good], [""] * len(good), [rows[n] for n in good])
        _, values = answer_rows(model, Ready(lot, model.prepare(lot.samples)), asked)
        columns = asked.columns()
        answers = {
            n: dict(zip(columns, row, strict=True)) for n, row in zip(good, values, strict=True)
        }
    return [answers.get(n) or {"input": n, "error": problems[n]} for n, _ in numbered]


def _sample(model: TrainedModel, row: dict[str, Any]) -> Any:
    """Decodes the sample of a row, so that an error is that of its line.

    An image is the path of a file in `image`, or pixels as lists in `x`.

    Raises:
        UnusableSample: If it does not fit the model.
    """
    form = model.description.samples
    sample: Any = row
    if isinstance(form, ImageForm):
        if isinstance(row.get("image"), str):
            sample = row["image"]
        elif isinstance(row.get("x"), list):
            try:
                sample = np.array(row["x"])
            except (ValueError, TypeError, OverflowError):
                raise UnusableSample(0, "'x' is no image: lists of numbers are expected") from None
        else:
            raise UnusableSample(
                0, "expected the path of an image as 'image', or its pixels as lists as 'x'"
            )
    decoded = decode([sample], form, model.resizes)
    return decoded[0] if isinstance(form, ImageForm) else sample
