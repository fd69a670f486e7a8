"""Our results beside the paper's, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ofcl.evaluation.metrics import forgetting, last_accuracy
from ofcl.evaluation.results import Result
from ofcl.report import formats
from ofcl.report.spread import Spread, over_clients, over_seeds
from ofcl.reproduce.paper import Cell

AGREES, NEAR = 2.0, 4.0  # distance up to which we agree or are near, in the paper's deviations

COLUMNS = ("dataset", "row", "paper A", "A", "off", "paper F", "F", "off", "seeds", "verdict")


@dataclass(frozen=True)
class Verdict:
    """A cell of the paper and our results for it.

    Args:
        cell: The cell, with the paper's numbers.
        seeds: How many of our runs are finished.
        A: Our accuracy; its mean is None if no run is finished.
        F: Our forgetting; its mean is None if no run is finished.
        value: Our number for `Cell.paper`, in tables of another quantity than A and F.
    """

    cell: Cell
    seeds: int
    A: Spread
    F: Spread
    value: Spread

    def off(self, name: str) -> float | None:
        """Computes how far our mean is above the paper's, in the paper's standard deviations.

        Args:
            name: `A` or `F`.

        Returns:
            The distance, negative if we are below; None if a mean or the deviation is missing.
        """
        ours: Spread = getattr(self, name)
        paper, std = getattr(self.cell, name), getattr(self.cell, f"{name}_std")
        if ours.mean is None or paper is None or not std:
            return None
        return float((ours.mean - paper) / std)

    @property
    def verdict(self) -> str:
        """Our agreement with the paper, judged by the worse of A and F.

        It is `agrees`, `near` or `differs`; `not run` before the first run; a dash if the paper
        gives no deviation.
        """
        if not self.seeds:
            return "not run"
        offs = [abs(off) for off in (self.off("A"), self.off("F")) if off is not None]
        if not offs:
            return "–"  # the paper gives no deviation here
        return "agrees" if max(offs) <= AGREES else "near" if max(offs) <= NEAR else "differs"

    def row(self) -> list[str]:
        """Returns the verdict as a row of texts, in the order of `COLUMNS`."""
        cell = self.cell
        if cell.paper is not None:
            paper = f"{cell.paper:g} {cell.unit}"
            return [cell.dataset, cell.row, paper, str(self.value), "", "", "", "",
                    str(self.seeds), self.verdict]  # fmt: skip
        return [
            cell.dataset, cell.row, str(Spread(cell.A, cell.A_std)), str(self.A),
            _signed(self.off("A")), str(Spread(cell.F, cell.F_std)), str(self.F),
            _signed(self.off("F")), str(self.seeds), self.verdict,
        ]  # fmt: skip


def _signed(value: float | None) -> str:
    """Returns a distance in standard deviations with its sign, as text; empty for None."""
    return "" if value is None else f"{value:+.1f} σ"


def judge(cell: Cell, results: Sequence[Result], spread: str, tasks: int) -> Verdict:
    """Compares our runs of a cell with the paper.

    Args:
        cell: The cell.
        results: The results of our finished runs, one for each seed; may be empty.
        spread: Whether the ± of our A and F is over `seeds` or over `clients`.
        tasks: The number of tasks of a run, by which rounds are divided.
    """
    if not results:
        return Verdict(cell, 0, *(Spread(None, None),) * 3)
    if spread == "clients":
        matrices = [result.accuracy for result in results]
        A = over_clients([[last_accuracy(m) for m in clients] for clients in matrices])
        F = over_clients([[forgetting(m) for m in clients] for clients in matrices])
    else:
        A, F = (over_seeds([getattr(result, name) for result in results]) for name in "AF")
    rounds = over_seeds([result.rounds / tasks for result in results])
    seconds = over_seeds([result.seconds for result in results])
    return Verdict(cell, len(results), A, F, seconds if cell.unit == "s" else rounds)


def as_markdown(verdicts: Sequence[Verdict]) -> str:
    """Returns verdicts as a table in Markdown.

    Args:
        verdicts: A verdict for each cell.
    """
    return formats.as_markdown(COLUMNS, [verdict.row() for verdict in verdicts])


def as_latex(verdicts: Sequence[Verdict]) -> str:
    """Returns verdicts as a table in LaTeX, which needs the package booktabs.

    Args:
        verdicts: A verdict for each cell.
    """
    align = "ll" + "r" * (len(COLUMNS) - 3) + "l"
    return formats.as_latex(COLUMNS, [verdict.row() for verdict in verdicts], align)


def as_csv(verdicts: Sequence[Verdict]) -> str:
    """Returns verdicts as CSV, with a column for each number.

    Args:
        verdicts: A verdict for each cell.
    """
    columns = ["dataset", "row", "paper_A", "paper_A_std", "A", "A_std", "paper_F", "paper_F_std",
               "F", "F_std", "paper_value", "value", "unit", "seeds", "verdict"]  # fmt: skip
    rows = [
        [v.cell.dataset, v.cell.row, v.cell.A, v.cell.A_std, v.A.mean, v.A.std, v.cell.F,
         v.cell.F_std, v.F.mean, v.F.std, v.cell.paper,
         v.value.mean if v.cell.paper is not None else None, v.cell.unit, v.seeds, v.verdict]
        for v in verdicts
    ]  # fmt: skip
    return formats.as_csv(columns, rows)
