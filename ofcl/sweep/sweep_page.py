"""The page of a sweep: one HTML file with tables and pictures, which loads nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from ofcl.report import figures
from ofcl.report.drawn import Drawn, Numbers, numbers_of_curves
from ofcl.report.formats import number
from ofcl.report.page import render
from ofcl.report.scatter import Point, numbers_of_points, points
from ofcl.report.series import Curve
from ofcl.settings.files import to_toml
from ofcl.sweep.findings import BEST, Findings
from ofcl.sweep.space import Dimension, Range
from ofcl.sweep.study import TrialRecord
from ofcl.sweep.sweep_file import OBJECTIVE, SweepPlan, shown_space


def page(plan: SweepPlan, findings: Findings, importances: Mapping[str, float]) -> str:
    """Makes the page of a sweep, as HTML.

    Args:
        plan: The plan of the sweep.
        findings: Its outcome so far.
        importances: The share of each setting in the differences of trials; may be empty.
    """
    complete = [record for record in findings.records if record.value is not None]
    progress = [_progress(complete, findings.default)] if complete else []
    curves = _curves(findings.records)
    shares = [_importances(importances)] if importances else []
    slices = [_slice(dimension, complete) for dimension in plan.space] if complete else []
    drawn = [*progress, *curves, *shares, *slices]
    states = ", ".join(f"{count} {state}" for state, count in sorted(findings.counts.items()))
    return render(
        "sweep.html",
        {id(some): some.name for some in drawn},
        "",
        title=f"Sweep over {', '.join(d.name for d in plan.space)}",
        about=f"{len(findings.records)} trials of {plan.trials}: {states}. Each is the mean of "
        f"{OBJECTIVE} over the seeds {', '.join(map(str, plan.seeds))}.",
        verdict=findings.verdict(),
        best=to_toml({**plan.given, **findings.best.values}) if findings.best else "",
        best_file=BEST,
        space=shown_space(plan.space),
        progress=progress,
        curves=curves,
        importances=shares,
        slices=slices,
        trials=_table(plan, findings),
    )


def _progress(complete: list[TrialRecord], default: float | None) -> Drawn:
    """Draws the value of each trial, the best so far, and the default."""
    found = [Point(record.number, record.value or 0.0) for record in complete]
    best, so_far = [], float("-inf")
    for point in found:
        so_far = max(so_far, point.y)
        best.append(Point(point.x, so_far))
    groups = {"trial": found}
    if default is not None:
        groups["default"] = [Point(found[0].x, default)]
    figure = points(groups, x="trial", y=f"{OBJECTIVE}, %", curve=best)
    told = numbers_of_points("trial", OBJECTIVE, {**groups, "best so far": best})
    return Drawn("values", "The value of each complete trial, and the best so far", figure, told)


def _curves(records: list[TrialRecord]) -> list[Drawn]:
    """Draws how each trial has come along: the anytime accuracy after each task."""
    curves = [
        Curve(f"{r.number}" + (" (pruned)" if r.state == "pruned" else ""), list(r.curve),
              list(r.curve.values()))
        for r in records if r.curve
    ]  # fmt: skip
    if not curves:
        return []
    caption = "Anytime accuracy of each trial after each task; those that lag behind are stopped"
    figure = figures.lines(curves, x="tasks ended, over all seeds", y="anytime accuracy, %",
                           whole=True)  # fmt: skip
    return [Drawn("curves", caption, figure, numbers_of_curves("tasks", curves))]


def _importances(shares: Mapping[str, float]) -> Drawn:
    """Draws the share of each setting in the differences of trials."""
    percent = {name: 100 * share for name, share in shares.items()}
    rows = [[name, number(share)] for name, share in percent.items()]
    caption = "How much each setting matters among the better trials (PED-ANOVA)"
    return Drawn("importances", caption, figures.named_bars(percent, y="share, %"),
                 Numbers(["setting", "share, %"], rows))  # fmt: skip


def _slice(dimension: Dimension, complete: list[TrialRecord]) -> Drawn:
    """Draws the value of each trial against a setting."""
    name, log = dimension.name, isinstance(dimension, Range) and dimension.log
    groups: dict[str, list[Point]]
    if isinstance(dimension, Range):
        groups = {"trials": [Point(float(r.values[name]), r.value or 0.0) for r in complete]}
    else:
        groups = {
            str(choice): [
                Point(place, r.value or 0.0) for r in complete if r.values[name] == choice
            ]
            for place, choice in enumerate(dimension.values, 1)
        }
    figure = points(groups, x=name, y=f"{OBJECTIVE}, %", log=log)
    told = numbers_of_points(name, OBJECTIVE, groups)
    return Drawn(f"slice-{name}", f"Trials by {name}", figure, told)


def _table(plan: SweepPlan, findings: Findings) -> Numbers:
    """Makes a table of all trials, the best first."""
    names = [dimension.name for dimension in plan.space]
    ranked = sorted(findings.records, key=lambda r: -(r.value if r.value is not None else -1.0))
    rows = [
        [str(r.number), r.state + (f": {r.reason}" if r.reason else ""), number(r.value, 2),
         *(_shown(r.values.get(name)) for name in names)]
        for r in ranked
    ]  # fmt: skip
    return Numbers(["trial", "state", OBJECTIVE, *names], rows)


def _shown(value: object) -> str:
    """Writes the value of a setting; of numbers, four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
