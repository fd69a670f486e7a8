"""Results as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ofcl.evaluation.results import Result
from ofcl.report.comparison import ExperimentLine
from ofcl.report.formats import number
from ofcl.report.result_tables import JOINT_COLUMN, has_joint


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


def comparison_table(lines: Sequence[ExperimentLine]) -> Table:
    """Makes a table of experiments; settings that all of them share stand above the table.

    Args:
        lines: A line for each experiment, in the order of the table.
    """
    names = list(lines[0].settings)
    common = [n for n in names if len({str(line.settings[n]) for line in lines}) == 1]
    shown = [name for name in names if name not in common or len(lines) == 1]
    above = ", ".join(f"{name} {lines[0].settings[name]}" for name in common if name not in shown)
    title = "Accuracy A and forgetting F, % (mean ± std)"
    table = Table(title=f"{title}\n{above}" if above else title, title_justify="left")
    for name in shown:
        table.add_column(name)
    for name in ("seeds", "A ↑", "F ↓", "global A ↑", "global F ↓"):
        table.add_column(name, justify="right")
    judged = any(line.A_less_best is not None for line in lines)
    if judged:
        table.add_column("A less the best's [95 %]")
    bounded = has_joint(lines)
    if bounded:
        table.add_column(JOINT_COLUMN, justify="right")
    for line in lines:
        spreads = (line.A, line.F, line.global_A, line.global_F)
        values = [str(line.settings[name]) for name in shown]
        apart = [str(line.A_less_best) if line.A_less_best else ""] if judged else []
        apart += [str(line.below_joint or "")] if bounded else []
        table.add_row(*values, str(len(line.seeds)), *map(str, spreads), *apart)
    return table
