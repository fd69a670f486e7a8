"""`ofcl predict`: what a model says about samples without labels."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ofcl.bundle.trained_model import TrainedModel
from ofcl.cli.model_options import (
    Device,
    EmbedderName,
    KeyFile,
    Model,
    OnBadOption,
    Resize,
    TextColumn,
    checked_on_bad,
    open_model,
    parse_share,
)
from ofcl.cli.progress import track
from ofcl.cli.shared_options import Allow, Quiet
from ofcl.cli.terminal import out_console, say
from ofcl.compute.batching import forward_size
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.options import Damage, OnBad, Progress, Reading, no_progress
from ofcl.data.own.hub import HUB
from ofcl.data.sample_forms import ImageForm
from ofcl.errors import OfclError, printable, unknown
from ofcl.inference.answer_files import CsvWriter, Writer, check_suffix, open_answers
from ofcl.inference.answering import (
    BY,
    Abstention,
    Asked,
    answer_rows,
    choose_abstention,
    curve_of,
    prepare_lots,
)
from ofcl.inference.evaluating import answer_labelled
from ofcl.inference.input_rows import Lot, Lots, read_lots
from ofcl.inference.json_answers import answer_lines
from ofcl.inference.labelled_data import read_labelled

STDIN = "-"
SHOWN = 20  # rows in a terminal
MANY_IMAGES = 1000  # of more, uncertainty is measured only if it is asked for


def predict(
    model: Model,
    input_: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A folder of images, an image, a table, .txt, .npz; - for JSONL."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file: .csv, .jsonl or .parquet.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Also the K likeliest labels.")] = 0,
    abstain: Annotated[
        str | None,
        typer.Option(help="Give no label where it is unsure, to err at most so often: 5%."),
    ] = None,
    by: Annotated[str, typer.Option(help="Unsure by probability or uncertainty.")] = BY[0],
    calibrate: Annotated[
        str | None, typer.Option(help="Labelled data of your own, for --abstain.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label's column in --calibrate.")] = None,
    measure: Annotated[
        bool | None,
        typer.Option("--uncertainty/--no-uncertainty", help="Default: but for many images."),
    ] = None,
    keep: Annotated[str | None, typer.Option(help="Columns of the input to copy: id,name.")] = None,
    text: TextColumn = None,
    resize: Resize = False,
    embedder: EmbedderName = None,
    key_file: KeyFile = None,
    allow: Allow = None,
    device: Device = "auto",
    on_bad: OnBadOption = "stop",
    quiet: Quiet = False,
) -> None:
    """Predict labels for new samples, with probability and uncertainty."""
    if out is not None:
        check_suffix(out)
    if by not in BY:
        raise unknown("value of --by", by, BY)
    error = None if abstain is None else parse_share(abstain, "--abstain")
    opened = open_model(
        model,
        device,
        resize=resize,
        embedder=embedder,
        text=text,
        key_file=key_file,
        allow=allow,
    )
    bad, progress = checked_on_bad(on_bad), no_progress if quiet else track
    abstention = None
    if error is not None:
        abstention = _abstention(opened, by, error, calibrate, label, bad, progress)
        if not quiet:
            say(abstention.words())
    elif calibrate is not None:
        raise OfclError("--calibrate is for --abstain; say also how often it may err")
    needed = abstention is not None and by == "uncertainty"
    columns = tuple(name.strip() for name in keep.split(",")) if keep else ()
    if input_ == STDIN:
        asked = Asked(needed or measure is not False, top, abstention, columns)
        _answer_standard_input(opened, asked, out, quiet)
        return
    damage = Damage(bad)
    lots = _lots(opened, input_, damage, progress)
    many = isinstance(opened.description.samples, ImageForm) and lots.samples > MANY_IMAGES
    if many and measure is None and not needed and not quiet:
        say(f"{lots.samples} images: uncertainty is left out, for it takes many times as long; "
            "ask for it with --uncertainty")  # fmt: skip
    measured = needed or (not many if measure is None else measure)
    _answer_lots(opened, lots, Asked(measured, top, abstention, columns), out, quiet, input_)


def _lots(model: TrainedModel, given: str, damage: Damage, progress: Progress) -> Lots:
    """Reads the input: a path, or a dataset by name."""
    form, size = model.description.samples, forward_size(model.device)
    if (given in DATASETS and not Path(given).exists()) or given.startswith(HUB):
        return read_labelled(given, form, Reading(track=progress), tell=say).lots(size, damage)
    return read_lots(Path(given).expanduser(), form, size, damage)


def _abstention(
    model: TrainedModel,
    by: str,
    error: float,
    calibrate: str | None,
    label: str | None,
    on_bad: OnBad,
    progress: Progress,
) -> Abstention:
    """Chooses where the model gives no label: by its own curves, or by the user's labelled data."""
    curves: dict[Any, Any] = dict(model.description.abstention)
    if calibrate is not None:
        how = Reading(label=label, on_bad=on_bad, track=progress)
        data = read_labelled(calibrate, model.description.samples, how, "all", say)
        answers, classes, _ = answer_labelled(model, data, by == "uncertainty", on_bad, progress)
        curves = {by: curve_of(answers, classes, by)}
    return choose_abstention(curves.get(by), by, error)


def _answer_standard_input(
    model: TrainedModel, asked: Asked, out: Path | None, quiet: bool
) -> None:
    """Answers lines of JSON as they come."""
    if out is not None:
        raise OfclError("answers to standard input go to standard output: leave out --out")
    if sys.stdin is None:
        raise OfclError("standard input is closed; nothing can be read from it")
    asked.columns()

    def write(text: str) -> None:
        """Prints answers at once."""
        sys.stdout.write(text)
        sys.stdout.flush()

    answered, failed = answer_lines(model, sys.stdin.fileno(), asked, write)
    if failed and not quiet:
        say(f"{failed} of {answered} lines could not be used")


def _answer_lots(
    model: TrainedModel, lots: Lots, asked: Asked, out: Path | None, quiet: bool, name: str
) -> None:
    """Answers all samples of an input, and writes the answers as they come."""
    progress = no_progress if quiet else track
    answered = silent = 0
    with _writer(out, asked.columns()) as writer:
        items = progress(lots, f"predicting {lots.samples} samples")
        for ready in prepare_lots(model, items, lots.damage):
            _check_kept(ready.lot, asked, name)
            _, rows = answer_rows(model, ready, asked)
            writer.write(rows)
            answered += len(rows)
            silent += sum(row[1 + len(asked.keep)] is None for row in rows)
    if quiet:
        return
    for note in lots.damage.notes(name):
        say(note)
    if asked.abstention is not None:
        say(f"{silent} of {answered} samples have no label")
    if out is not None:
        say(f"{answered} answers in {out}")


def _check_kept(lot: Lot, asked: Asked, name: str) -> None:
    """Raises an error if a column that is to be copied is in no row of a lot."""
    if asked.keep and lot.inputs and not lot.rows:
        raise OfclError(f"--keep copies columns of tables; '{name}' has none")
    for column in asked.keep:
        if lot.rows and not any(column in row for row in lot.rows):
            raise OfclError(f"'{name}' has no column '{column}'; it has {', '.join(lot.rows[0])}")


@contextmanager
def _writer(out: Path | None, columns: Sequence[str]) -> Iterator[Writer]:
    """Chooses where answers go: a file, a table in a terminal, or CSV on standard output."""
    if out is not None:
        with open_answers(out, columns) as writer:
            yield writer
    elif out_console.is_terminal:
        table = TerminalTable(columns)
        yield table
        table.show()
    else:
        yield CsvWriter(sys.stdout, columns)
        sys.stdout.flush()


class TerminalTable:
    """Keeps the first answers, and shows them as a table.

    Args:
        columns: The names of the columns.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._table = Table(box=None, pad_edge=False)
        for name in columns:
            number = name.startswith(("probability", "uncertainty"))
            self._table.add_column(printable(name), justify="right" if number else "left")
        self._rows = 0

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Adds rows, of which only the first are shown.

        Args:
            rows: The rows of values, in the order of the columns.
        """
        for row in rows[: max(SHOWN - self._rows, 0)]:
            self._table.add_row(*(_in_terminal(value) for value in row))
        self._rows += len(rows)

    def show(self) -> None:
        """Prints the table."""
        out_console.print(self._table, highlight=False, markup=False)
        if self._rows > SHOWN:
            out_console.print(
                f"… and {self._rows - SHOWN} more; all of them with -o answers.csv",
                highlight=False,
                markup=False,
            )


def _in_terminal(value: Any) -> Any:
    """Writes a value for the table."""
    from rich.text import Text

    if value is None:
        return "–"
    return Text(f"{value:.3g}" if isinstance(value, float) else printable(str(value)))
