"""The table of results of a report, for a page, a paper or a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ofcl.report import formats
from ofcl.report.comparison import ExperimentLine
from ofcl.report.naming import plain_value

COLUMNS = ("experiment", "seeds", "A ↑ over seeds", "over clients", "F ↓ over seeds",
           "over clients", "global A ↑", "global F ↓", "A less the best's [95 %]")  # fmt: skip
JOINT_COLUMN = "A below joint ↓"
"""A further column, where an experiment was run as joint training too."""


def columns(lines: Sequence[ExperimentLine]) -> list[str]:
    """Returns the names of the columns; the gap to joint training is one if any experiment has it.

    Args:
        lines: The experiments.
    """
    return [*COLUMNS, *([JOINT_COLUMN] if has_joint(lines) else [])]


def about_joint(lines: Sequence[ExperimentLine]) -> str:
    """Returns a sentence that explains the column about joint training; empty without that column.

    Args:
        lines: The experiments.
    """
    if not has_joint(lines):
        return ""
    return ("A below joint: points that are missing to the same run with all tasks at once, and "
            "the share of its A that is reached. ")  # fmt: skip


def has_joint(lines: Sequence[ExperimentLine]) -> bool:
    """Says whether any of the experiments has a known gap to joint training.

    Args:
        lines: The experiments.
    """
    return any(line.below_joint is not None for line in lines)


def common(lines: Sequence[ExperimentLine]) -> str:
    """Lists in words what the experiments of a dataset share: memory, protocol.

    Args:
        lines: The experiments.
    """
    values = {name: {line.settings[name] for line in lines} for name in ("memory", "protocol")}
    return ", ".join(f"{name} {one}" for name, some in values.items() if len(some) == 1
                     for one in some)  # fmt: skip


def rows(lines: Sequence[ExperimentLine]) -> list[list[str]]:
    """Writes the cells of each experiment as text, in the order of `columns`.

    Args:
        lines: The experiments; with several datasets, names begin with the dataset.
    """
    several, joint = len({line.dataset for line in lines}) > 1, has_joint(lines)
    return [
        [f"{line.dataset} {line.name}" if several else line.name, *cells(line, joint)]
        for line in lines
    ]


def cells(line: ExperimentLine, joint: bool) -> list[str]:
    """Writes an experiment's cells as text, except for the first, its name.

    Args:
        line: The experiment.
        joint: Whether there is a column about joint training.
    """
    return [
        str(len(line.seeds)), str(line.A_over_seeds), str(line.A_over_clients),
        str(line.F_over_seeds), str(line.F_over_clients), str(line.global_A), str(line.global_F),
        str(line.A_less_best or ""), *([str(line.below_joint or "")] if joint else []),
    ]  # fmt: skip


def named_cells(line: ExperimentLine) -> list[tuple[str, str]]:
    """Returns what `cells` has of an experiment, each with its name; empty cells are left out.

    Args:
        line: The experiment.
    """
    names = ("seeds", "A over seeds", "A over clients", "F over seeds", "F over clients",
             "global A", "global F", "A less the best's [95 %]", "A below joint")  # fmt: skip
    named = zip(names, cells(line, joint=True), strict=True)
    return [(name, cell) for name, cell in named if cell]


def as_markdown(lines: Sequence[ExperimentLine]) -> str:
    """Returns the table of results as Markdown.

    Args:
        lines: The experiments.
    """
    return formats.as_markdown(columns(lines), rows(lines))


def as_latex(lines: Sequence[ExperimentLine]) -> str:
    """Returns the table of results as LaTeX, which needs the package booktabs.

    Args:
        lines: The experiments.
    """
    align = "lr" + "r" * 6 + "l" + ("r" if has_joint(lines) else "")
    return formats.as_latex(columns(lines), rows(lines), align)


def as_csv(lines: Sequence[ExperimentLine]) -> str:
    """Returns the table of results as CSV, with a column for each setting and each number.

    Args:
        lines: The experiments.
    """
    settings = list(lines[0].settings) if lines else []
    measured = ("A_over_seeds", "A_over_clients", "F_over_seeds", "F_over_clients", "global_A",
                "global_F")  # fmt: skip
    names = [*settings, "seeds", *(f"{m}{part}" for m in measured for part in ("", "_std"))]
    if has_joint(lines):
        names += ["below_joint", "below_joint_std", "share_of_joint"]

    def values_of(line: ExperimentLine) -> list[Any]:
        """Returns the cells of one experiment, None where a number is unknown."""
        spreads = [getattr(line, name) for name in measured]
        values: list[Any] = [*map(_cell, line.settings.values()), len(line.seeds)]
        values += [value for spread in spreads for value in (spread.mean, spread.std)]
        if has_joint(lines):
            gap = line.below_joint
            values += [gap.A.mean, gap.A.std, gap.share] if gap else [None] * 3
        return values

    return formats.as_csv(names, [values_of(line) for line in lines])


def _cell(value: Any) -> Any:
    """Returns a setting's value for a program: lists as text, None if it is not set."""
    return plain_value(value) or None if isinstance(value, list | tuple) else value


FORMS: dict[str, Callable[[Sequence[ExperimentLine]], str]] = {
    "md": as_markdown, "tex": as_latex, "csv": as_csv,
}  # fmt: skip
"""The formats of the table by the suffix of their files."""
