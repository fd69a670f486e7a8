"""Results as tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ofcl.errors import printable
from ofcl.evaluation.cross_matrix import CrossMatrix
from ofcl.evaluation.results import Result
from ofcl.report.comparison import ExperimentLine, by_dataset
from ofcl.report.formats import number
from ofcl.report.result_tables import JOINT_COLUMN, common

DIFFERENCE = "A less the best's [95 %]"
HEADING = "experiment"
NAME_WIDTH = 16  # characters of an experiment's name that stand in one line, at least
DIFFERENCE_WIDTH = 21  # of `-10.0 [-10.0, -10.0],`
BETWEEN = 3  # characters between two columns


def percent(value: float | None) -> str:
    """Writes a percentage with two digits after the point; None as a dash.

    Args:
        value: The percentage, or None.
    """
    return number(value, digits=2)


def print_result(console: Console, result: Result) -> None:
    """Prints a run's result in a few lines.

    Args:
        console: The console to which it is printed.
        result: The result.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("A", percent(result.A), "average accuracy at the end, %")
    table.add_row("F", percent(result.F), "average forgetting, %")
    table.add_row("global A", percent(result.global_A), "of the server's model")
    table.add_row("global F", percent(result.global_F), "")
    if result.anytime_accuracy is not None:
        table.add_row("anytime", percent(result.anytime_accuracy), "of samples as they came, %")
    if result.skipped:
        table.add_row("left out", str(result.skipped), "samples that could not be used")
    table.add_row("rounds", str(result.rounds), f"{result.bytes_sent / 1e6:.1f} MB sent")
    table.add_row("seconds", f"{result.seconds:.1f}", "")
    console.print(table)


def print_cross_site(console: Console, result: Result, names: Sequence[str]) -> None:
    """Prints the matrix of cross-site validation: a row a model, a column the data of a party.

    Args:
        console: The console to which it is printed.
        result: The result; if no models were tested on the data of others, nothing is printed.
        names: The names of the parties.
    """
    if not result.cross_site:
        return
    matrix = CrossMatrix(result.cross_site)
    table = Table("model", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for client in matrix.clients:
        table.add_column(Text(f"{names[client]} ({matrix.samples[client]})"), justify="right")
    table.add_column("mean elsewhere", justify="right")
    for model in matrix.models:
        cells = [percent(matrix.accuracy(model, client)) for client in matrix.clients]
        name = "global" if model is None else names[model]
        elsewhere = "" if model is None else percent(matrix.elsewhere(model))
        table.add_row(Text(name), *cells, elsewhere)
    of_others = [percent(matrix.of_others(client)) for client in matrix.clients]
    table.add_row("mean of others", *of_others, "")
    console.print("\ncross-site validation: accuracy of each model on the test data of each party "
                  "(samples), %", highlight=False)  # fmt: skip
    console.print(table)


def print_comparison(console: Console, lines: Sequence[ExperimentLine]) -> None:
    """Prints experiments side by side, one table a dataset; A and F are always in sight.

    Args:
        console: The console to which it is printed; what does not fit its width is left out, and
            the last line says so.
        lines: A line for each experiment, in the order of the tables.
    """
    console.print("Accuracy A and forgetting F, % (mean ± std)", highlight=False)
    left_out: list[str] = []
    for block in by_dataset(lines):
        about = ": ".join(filter(None, [printable(block[0].dataset), common(block)]))
        console.print(f"\n{about}", highlight=False, markup=False, style="bold")
        table, missing = _fitting_table(console, block)
        console.print(table)
        left_out += [name for name in missing if name not in left_out]
    if left_out:
        console.print(f"not shown at this width: {', '.join(left_out)} (--json has all)",
                      highlight=False, markup=False, style="dim")  # fmt: skip


def _fitting_table(console: Console, block: Sequence[ExperimentLine]) -> tuple[Table, list[str]]:
    """Makes the table of a dataset with as many columns as the console has room for.

    Args:
        console: The console.
        block: The experiments of the dataset.

    Returns:
        The table, and the names of the columns that it leaves out.
    """
    more = _further_columns(block)
    longest = max(map(len, (HEADING, *(line.name for line in block))))
    chosen: dict[str, list[str]] = {}
    for name, cells in more.items():
        left = console.width - _width(block, {**chosen, name: cells})
        if left >= min(longest, NAME_WIDTH):
            chosen[name] = cells
    left = max(console.width - _width(block, chosen), 1)
    table = _table(block, chosen, min(longest, left))
    return table, [name for name in more if name not in chosen]


def _further_columns(block: Sequence[ExperimentLine]) -> dict[str, list[str]]:
    """Returns the columns besides A and F that any experiment has values for, the first first."""
    columns = {
        DIFFERENCE: [str(line.A_less_best or "") for line in block],
        JOINT_COLUMN: [str(line.below_joint or "") for line in block],
        "global A ↑": [str(line.global_A) for line in block],
        "global F ↓": [str(line.global_F) for line in block],
    }
    return {name: cells for name, cells in columns.items() if any(cells)}


def _width(block: Sequence[ExperimentLine], more: Mapping[str, Sequence[str]]) -> int:
    """Computes the width of a dataset's table beside the names of experiments.

    Args:
        block: The experiments.
        more: The columns besides A and F: for each name, a cell for each experiment.
    """
    numbers = {name: cells for name, cells in more.items() if name != DIFFERENCE}
    columns = [["seeds"], ["A ↑", *(str(line.A) for line in block)],
               ["F ↓", *(str(line.F) for line in block)],
               *([name, *cells] for name, cells in numbers.items())]  # fmt: skip
    widths = [max(map(len, cells)) for cells in columns]
    widths += [DIFFERENCE_WIDTH] if DIFFERENCE in more else []
    return sum(BETWEEN + width for width in widths)


def _table(
    block: Sequence[ExperimentLine], more: Mapping[str, Sequence[str]], name_width: int
) -> Table:
    """Makes a table of the experiments of a dataset.

    Args:
        block: The experiments.
        more: The columns besides A and F: for each name, a cell for each experiment.
        name_width: The characters of a line of the names.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(HEADING, overflow="fold", width=name_width)
    for name in ("seeds", "A ↑", "F ↓", *more):
        if name == DIFFERENCE:  # it has words in it, and may take several lines
            table.add_column(name.replace(" [", "\n["), min_width=DIFFERENCE_WIDTH)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for n, line in enumerate(block):
        numbers = (str(len(line.seeds)), str(line.A), str(line.F))
        cells = (printable(line.name), *numbers, *(column[n] for column in more.values()))
        table.add_row(*map(Text, cells))
    return table
