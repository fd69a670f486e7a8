"""The page: one HTML file with everything in it, which opens from disk and loads nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ofcl.errors import OfclError
from ofcl.report import figures, formats, result_tables
from ofcl.report.comparison import ExperimentLine, compare_results
from ofcl.report.drawn import Drawn
from ofcl.report.recorded_runs import Experiment, RunView, read_experiments
from ofcl.report.sections import RunPart, run_part
from ofcl.report.side_by_side import side_by_side
from ofcl.settings.schema import Settings
from ofcl.version import __version__

SAMPLES = 60  # of each memory that are shown
HIDDEN = {"data_root", "device", "checkpoint_every"}  # settings without influence on results


@dataclass(frozen=True)
class ExperimentPart:
    """An experiment as the page shows it: its name, and its runs."""

    name: str
    runs: list[RunPart]


@dataclass(frozen=True)
class Report:
    """Everything that a report shows: the table of results, figures, runs, settings."""

    lines: list[ExperimentLine]
    compared: list[Drawn]
    experiments: list[ExperimentPart]
    differences: list[list[str]]  # settings that differ: name, value of each experiment
    settings: list[list[str]]  # settings that all have: name, value

    def figures(self) -> Iterator[tuple[str, Drawn]]:
        """Yields all figures of the report, each with a name that no other figure has."""
        for drawn in self.compared:
            yield drawn.name, drawn
        for experiment in self.experiments:
            for run in experiment.runs:
                confusions = [run.confusions.drawn] if run.confusions else []
                for drawn in (*run.accuracy, *confusions, *run.memory, *run.communication):
                    yield f"{run.name}-{drawn.name}", drawn


def slug(text: str) -> str:
    """Turns a name into one for files and addresses: lower case, hyphens for other characters.

    Args:
        text: The name.

    >>> slug("bi, memory 500")
    'bi-memory-500'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def make_report(paths: Iterable[str | Path], samples: int = SAMPLES) -> Report:
    """Reads the runs in folders, and makes the tables and figures of the report.

    Args:
        paths: Run directories, or folders of them.
        samples: How many samples of each memory are shown, at most.
    """
    experiments = read_experiments(paths)
    runs = [run for experiment in experiments for run in experiment.runs]
    finished = [run for run in runs if run.finished]  # A is defined at the end of a run
    differences, common = _compare_settings(
        [experiment.runs[0].settings for experiment in experiments]
    )
    return Report(
        lines=compare_results((run.settings, run.result) for run in finished) if finished else [],
        compared=side_by_side(experiments),
        experiments=[_experiment(experiment, samples) for experiment in experiments],
        differences=differences,
        settings=common,
    )


def _experiment(experiment: Experiment, samples: int) -> ExperimentPart:
    """Makes the part of the page about one experiment.

    Args:
        experiment: The experiment with its runs.
        samples: How many samples of each memory are shown, at most.
    """
    seeds = Counter(run.settings.seed for run in experiment.runs)

    def name(run: RunView) -> str:
        """Returns a run's name on the page: experiment, seed and, if seeds repeat, its folder."""
        again = f" {run.path.name}" if seeds[run.settings.seed] > 1 else ""
        return slug(f"{experiment.name} seed {run.settings.seed}{again}")

    runs = [run_part(name(run), run, samples) for run in experiment.runs]
    return ExperimentPart(experiment.name, runs)


def _compare_settings(settings: Sequence[Settings]) -> tuple[list[list[str]], list[list[str]]]:
    """Sorts settings into those that differ between experiments and those that do not.

    Args:
        settings: The settings of each experiment.

    Returns:
        Rows (name, value of each experiment) of settings that differ, and rows (name, value) of
        settings that are the same.
    """
    names = [name for name in Settings.model_fields if name not in {*HIDDEN, "seed"}]
    rows = [[name, *(_value(getattr(s, name)) for s in settings)] for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    return differing, [row[:2] for row in rows if len(set(row[1:])) == 1]


def _value(value: Any) -> str:
    """Returns a setting's value as text; a dash for None and for empty lists."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "–"
    return "–" if value is None else str(value)


def as_html(report: Report, live: bool = False) -> str:
    """Returns the page as HTML.

    Args:
        report: The report.
        live: Whether the page is served by `follow.serve`, and asks it for news by itself.
    """
    names = {id(drawn): name for name, drawn in report.figures()}
    live_script = page_file("live.js") if live else ""
    return render(
        "page.html",
        names,
        live_script,
        report=report,
        columns=result_tables.columns(report.lines),
        rows=result_tables.rows(report.lines),
        common=result_tables.common(report.lines),
        bound=result_tables.about_joint(report.lines),
        state=state,
    )


def page_file(name: str) -> str:
    """Reads a file of which pages are made.

    Args:
        name: Its name.
    """
    return (resources.files("ofcl.report") / "page" / name).read_text(encoding="utf-8")


def render(template: str, names: Mapping[int, str], more_script: str, **values: Any) -> str:
    """Fills in a template; style and script become parts of the page.

    Args:
        template: The name of the template.
        names: A name for each figure, by its id, that no other figure of the page has.
        more_script: A script besides that of all pages.
        values: The values that the template shows.

    Raises:
        OfclError: If Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise OfclError("the report needs Jinja2: pip install 'ofcl[report]'") from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True, loader=FunctionLoader(page_file))  # fmt: skip
    environment.filters |= {"slug": slug, "number": formats.number, "megabytes": megabytes}
    return environment.get_template(template).render(
        svg=lambda drawn: Markup(figures.as_svg(drawn.figure, names[id(drawn)])),
        style=Markup(page_file("style.css")),
        script=Markup(page_file("page.js") + more_script),
        version=__version__,
        **values,
    )


def megabytes(count: int) -> str:
    """Writes a number of bytes as megabytes.

    Args:
        count: The number of bytes.

    >>> megabytes(1234567)
    '1.2 MB'
    """
    return f"{count / 1e6:,.1f} MB"


def state(run: RunView) -> str:
    """Says in words how far a run has come, such as `finished`.

    Args:
        run: The run.
    """
    if run.finished:
        return "finished"
    learned = run.events_of("learned")
    if not learned:
        return "just begun"
    batches = sum(event["batches"] for event in learned)
    task = max(event["task"] for event in learned) + 1
    last = run.directory.earlier_tasks() + run.settings.tasks_in_stream
    tasks = "" if run.settings.streams else f" of {last}"
    return f"not finished: task {task}{tasks}, {batches} mini-batches"


def save_figures(report: Report, folder: Path) -> list[Path]:
    """Saves every figure as SVG and PDF, and the table of results as Markdown, LaTeX and CSV.

    Args:
        report: The report.
        folder: The folder for the files, which is made if it is missing.

    Returns:
        The paths of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [path for name, d in report.figures() for path in figures.save(d.figure, folder / name)]
    for suffix, form in result_tables.FORMS.items():
        path = folder / f"comparison.{suffix}"
        path.write_text(form(report.lines), encoding="utf-8")
        paths.append(path)
    return paths
