"""The table of results of a report, for a page, a paper or a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ofcl.report import formats
from ofcl.report.comparison import ExperimentLine

COLUMNS = ("experiment", "seeds", "A ↑ over seeds", "over clients", "F ↓ over seeds",
           "over clients", "global A ↑", "global F ↓", "A less the best's [95 %]")  # fmt: skip


def common(lines: Sequence[ExperimentLine]) -> str:
    """Says in words which settings all experiments share.

    Args:
        lines: the experiments.
    """
    return ", ".join(f"{key} {value}" for key, value in _shared(lines).items())


def _shared(lines: Sequence[ExperimentLine]) -> dict[str, Any]:
    first = lines[0].settings if lines else {}
    kept = [key for key in first if all(line.settings[key] == first[key] for line in lines)]
    return {key: first[key] for key in kept if key != "method"}


def rows(lines: Sequence[ExperimentLine]) -> list[list[str]]:
    """Writes the cells of each experiment as text, in the order of `COLUMNS`.

    Args:
        lines: the experiments.
    """
    shared = _shared(lines)

    def name(line: ExperimentLine) -> str:
        differing = [f"{k} {v}" for k, v in line.settings.items() if k not in {*shared, "method"}]
        return ", ".join([line.settings["method"], *differing])

    return [
        [
            name(line), str(len(line.seeds)), str(line.A_over_seeds), str(line.A_over_clients),
            str(line.F_over_seeds), str(line.F_over_clients), str(line.global_A),
            str(line.global_F),
            str(line.A_less_best) if line.A_less_best else "",
        ]
        for line in lines
    ]  # fmt: skip


def as_markdown(lines: Sequence[ExperimentLine]) -> str:
    """Writes the table for a page.

    Args:
        lines: the experiments.
    """
    return formats.as_markdown(COLUMNS, rows(lines))


def as_latex(lines: Sequence[ExperimentLine]) -> str:
    """Writes the table for a paper.

    Args:
        lines: the experiments.
    """
    return formats.as_latex(COLUMNS, rows(lines), "lr" + "r" * 6 + "l")


def as_csv(lines: Sequence[ExperimentLine]) -> str:
    """Writes the table for a program: a column for each setting and each number.

    Args:
        lines: the experiments.
    """
    settings = list(lines[0].settings) if lines else []
    measured = ("A_over_seeds", "A_over_clients", "F_over_seeds", "F_over_clients", "global_A",
                "global_F")  # fmt: skip
    columns = [*settings, "seeds", *(f"{m}{part}" for m in measured for part in ("", "_std"))]
    return formats.as_csv(
        columns,
        [
            [*line.settings.values(), len(line.seeds),
             *(part for m in measured for part in (getattr(line, m).mean, getattr(line, m).std))]
            for line in lines
        ],
    )  # fmt: skip


FORMS: dict[str, Callable[[Sequence[ExperimentLine]], str]] = {
    "md": as_markdown, "tex": as_latex, "csv": as_csv,
}  # fmt: skip
"""The formats of the table by the suffix of their files."""
