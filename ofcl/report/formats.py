"""Numbers and tables as text: for a page (Markdown), for a paper (LaTeX), for a program (CSV)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

LETTERS = 18  # of a name beside a figure

_IN_LATEX: dict[str, str | int | None] = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "σ": r"$\sigma$", "×": r"$\times$", "–": "--", "−": "$-$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$",
}  # fmt: skip


def number(value: float | None, digits: int = 1) -> str:
    """Writes a number, or a dash for None.

    Args:
        value: The number.
        digits: The digits after the point.

    >>> number(1.25, 2), number(None)
    ('1.25', '–')
    """
    return "–" if value is None else f"{value:.{digits}f}"


def short(name: str, letters: int = LETTERS) -> str:
    """Cuts the middle out of a long name so that it fits beside a figure; its end stays.

    Args:
        name: The name; a short one comes back unchanged.
        letters: The letters that have room, at least eight.

    >>> short("electrocardiogram-17")
    'electrocar…gram-17'
    """
    return name if len(name) <= letters else f"{name[: letters - 8]}…{name[-7:]}"


def as_markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Writes a table as Markdown, for a page.

    Args:
        columns: The names of the columns.
        rows: The cells of each row.

    >>> print(as_markdown(["method", "A"], [["er", "1.00 ± 0.50"]]), end="")
    | method | A |
    | --- | --- |
    | er | 1.00 ± 0.50 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(c.replace("|", r"\|") for c in line) + " |\n"
                   for line in lines)  # fmt: skip


def as_latex(columns: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    r"""Writes a table as LaTeX, for a paper; it needs the LaTeX package booktabs.

    Args:
        columns: The names of the columns.
        rows: The cells of each row.
        align: A letter for each column: l, c or r.

    >>> print(as_latex(["method", "A"], [["er_x", "1.00 ± 0.50"]], "lr"), end="")
    \begin{tabular}{lr}
    \toprule
    method & A \\
    \midrule
    er\_x & 1.00 $\pm$ 0.50 \\
    \bottomrule
    \end{tabular}
    """

    def line(cells: Sequence[str]) -> str:
        """Joins the cells of a row, with the characters escaped that LaTeX takes for commands."""
        return " & ".join(cell.translate(str.maketrans(_IN_LATEX)) for cell in cells) + r" \\"

    body = [r"\toprule", line(columns), r"\midrule", *map(line, rows), r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{align}}}", *body, r"\end{tabular}"]) + "\n"


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Writes a table as CSV, for a program.

    Args:
        columns: The names of the columns.
        rows: The cells of each row; None is an empty cell.

    >>> as_csv(["method", "A"], [["er", 1.5], ["bi", None]])
    'method,A\\ner,1.5\\nbi,\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()
