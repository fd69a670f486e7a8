"""`ofcl evaluate`: how good a model is on labelled data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from ofcl.assembly.dealing import Loader
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
)
from ofcl.cli.progress import track
from ofcl.cli.shared_options import Allow, Quiet
from ofcl.cli.terminal import out_console, say, warn
from ofcl.data.options import OnBad, Reading, data_root, no_progress
from ofcl.errors import OfclError, printable, unknown
from ofcl.inference.answer_files import escaped
from ofcl.inference.evaluating import evaluate_data, evaluate_own
from ofcl.inference.labelled_data import WhichPart, read_labelled
from ofcl.inference.measures import Evaluation
from ofcl.inference.own_test import own_test, run_of
from ofcl.storage.atomic_files import write_whole

PARTS = ("train", "test", "all")
SHOWN = 20  # classes in a terminal's confusion matrix


def evaluate(
    model: Model,
    data: Annotated[
        str | None,
        typer.Argument(help="Labelled data; default: the samples that the run was tested on."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="A table: column of the labels.")] = None,
    text: TextColumn = None,
    part: Annotated[
        str | None, typer.Option(help="train, test or all; default: test, if there is such a part.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Also a page with pictures: FILE.html.")] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Also all figures as JSON; - prints them.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also risk against coverage, as .svg, .png or .pdf.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--uncertainty/--no-uncertainty", help="Without it, it is faster.")
    ] = True,
    data_folder: Annotated[
        Path | None,
        typer.Option("--data-root", help="Folder of the named datasets; default: OFCL_DATA."),
    ] = None,
    resize: Resize = False,
    embedder: EmbedderName = None,
    key_file: KeyFile = None,
    allow: Allow = None,
    device: Device = "auto",
    on_bad: OnBadOption = "stop",
    quiet: Quiet = False,
) -> None:
    """Evaluate a model: accuracy by class and task, confusions, calibration, risk and coverage."""
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    opened = open_model(
        model,
        device,
        resize=resize,
        embedder=embedder,
        text=text,
        key_file=key_file,
        allow=allow,
    )
    if data is None:
        if part is not None or label is not None:
            raise OfclError("--part and --label are for DATA, which is not given")
        found = _on_own_data(model, opened, measure, quiet)
    else:
        how = Reading(
            root=data_folder or data_root(), label=label, text=text, on_bad=checked_on_bad(on_bad),
            track=no_progress if quiet else track,
        )  # fmt: skip
        found = _on_data(opened, data, how, cast(WhichPart | None, part), measure)
    _save(found, opened, page, as_json, plot)
    if as_json != Path("-"):
        print_evaluation(found)


def _on_own_data(path: Path, model: TrainedModel, measure: bool, quiet: bool) -> Evaluation:
    """Evaluates a run's model on the samples that its clients were tested on."""
    directory = run_of(path)
    if directory is None:
        raise OfclError(
            f"'{path}' is in no run directory, so its test samples are not known; give labelled "
            "samples: ofcl evaluate MODEL DATA"
        )
    progress = no_progress if quiet else track
    test = own_test(directory, model, Loader(progress, say), warn)
    return evaluate_own(model, test, measure=measure, progress=progress)


def _on_data(
    model: TrainedModel, data: str, how: Reading, part: WhichPart | None, measure: bool
) -> Evaluation:
    """Evaluates a model on labelled data."""
    labelled = read_labelled(data, model.description.samples, how, part, say)
    for note in labelled.notes:
        warn(note)
    on_bad: OnBad = how.on_bad
    return evaluate_data(model, labelled, measure=measure, on_bad=on_bad, progress=how.track)


def _save(
    found: Evaluation,
    model: TrainedModel,
    page: Path | None,
    as_json: Path | None,
    plot: Path | None,
) -> None:
    """Writes the files that are asked for."""
    try:
        if page is not None or plot is not None:
            from ofcl.inference import evaluation_page  # draws, which takes a while to import

            if page is not None:
                page.parent.mkdir(parents=True, exist_ok=True)
                write_whole(page, evaluation_page.page(found, model.description))
            if plot is not None:
                plot.parent.mkdir(parents=True, exist_ok=True)
                try:
                    evaluation_page.risk_figure(found).savefig(plot)
                except ValueError as error:  # of matplotlib: it does not know the suffix
                    raise OfclError(f"'{plot}' cannot be drawn: {error}") from None
        if as_json is not None:
            text = json.dumps(found.to_json(), indent=1, ensure_ascii=False) + "\n"
            if as_json == Path("-"):
                print(escaped(text), end="")
            else:
                write_whole(as_json, text)
    except OSError as error:
        raise OfclError(f"'{error.filename}' cannot be written ({error.strerror})") from None


def print_evaluation(found: Evaluation) -> None:
    """Prints the figures of a model as tables.

    Args:
        found: The figures.
    """
    from ofcl.inference import evaluation_page as pages

    for note in pages.summary_notes(found):
        warn(note)
    _print_table(f"Evaluated on {found.data}", [], pages.summary_rows(found))
    if found.tasks:
        rows = [[f"task {n}", _percent(value)] for n, value in enumerate(found.tasks, 1)]
        _print_table("Accuracy on each task", ["task", "%"], rows)
    rows = [[c.label, str(c.samples), str(c.right), _percent(c.accuracy)] for c in found.classes]
    _print_table("Accuracy on each class", ["class", "samples", "right", "%"], rows)
    matrix = pages.confusion_matrix(found)
    if len(matrix.labels) <= SHOWN:
        names = [str(n) for n in range(1, len(matrix.labels) + 1)]
        rows = [
            [f"{n} {label}", *map(str, row)]
            for n, label, row in zip(names, matrix.labels, matrix.counts.tolist(), strict=True)
        ]
        _print_table("Confusions: a row for each class, a column for what it is taken for",
                     ["class", *names], rows)  # fmt: skip
    else:
        rows = [
            [matrix.labels[a], matrix.labels[b], str(matrix.counts[a, b])]
            for a, b in matrix.wrong()[:SHOWN]
        ]
        _print_table("The most frequent confusions", ["class", "taken for", "samples"], rows)
    bins = [
        [f"{b.low:.2f} to {b.high:.2f}", str(b.samples), pages.percent(b.probability),
         pages.percent(b.accuracy)]
        for b in found.bins if b.samples
    ]  # fmt: skip
    _print_table("Calibration", ["probability", "samples", "mean, %", "right, %"], bins)
    shares = pages.risk_numbers(found)
    _print_table("Wrong answers, %, if only the surest are answered", shares.columns, shares.rows)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _print_table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Prints a table; cells are texts that may be anybody's."""
    from rich.text import Text

    out_console.print(Text(printable(title), style="bold"), highlight=False)
    table = Table(box=None, pad_edge=False, show_header=bool(columns))
    for n, name in enumerate(columns or [""] * len(rows[0] if rows else [])):
        table.add_column(Text(printable(name)), justify="right" if n else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    out_console.print(table, highlight=False)
    out_console.print()
