"""Tables as text: for a page (Markdown), for a paper (LaTeX), for a program (CSV)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_IN_LATEX: dict[str, str | int | None] = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "σ": r"$\sigma$", "×": r"$\times$", "–": "--", "−": "$-$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$",
}  # fmt: skip


def as_markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for a page.

    >>> print(as_markdown(["method", "A"], [["er", "1.00 ± 0.50"]]), end="")
    | method | A |
    | --- | --- |
    | er | 1.00 ± 0.50 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(c.replace("|", r"\|") for c in line) + " |\n"
                   for line in lines)  # fmt: skip


def as_latex(columns: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    r"""A table for a paper, its columns aligned by l, c or r; needs booktabs.

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
        return " & ".join(cell.translate(str.maketrans(_IN_LATEX)) for cell in cells) + r" \\"

    body = [r"\toprule", line(columns), r"\midrule", *map(line, rows), r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{align}}}", *body, r"\end{tabular}"]) + "\n"


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for a program; None is empty.

    >>> as_csv(["method", "A"], [["er", 1.5], ["bi", None]])
    'method,A\\ner,1.5\\nbi,\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()
