"""The page: one HTML file with everything in it, which opens from disk and loads nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ofcl.errors import OfclError
from ofcl.report import figures, formats, result_tables
from ofcl.report.blocks import Block, ExperimentPart, make_blocks, slug, state
from ofcl.report.comparison import ExperimentLine, compare_results
from ofcl.report.drawn import Drawn
from ofcl.report.grouping import experiment_key
from ofcl.report.recorded_runs import read_experiments
from ofcl.report.sections import RunPart
from ofcl.version import __version__

SAMPLES = 60  # of each memory that are shown
DRAWN = 12  # runs that are shown with figures and memories; hundreds would make a page of 100 MB
FEW = 6  # experiments that are shown open, and whose names stand at the top


@dataclass(frozen=True)
class Report:
    """Everything that a report shows: a block for each dataset."""

    blocks: list[Block]

    @property
    def lines(self) -> list[ExperimentLine]:
        """The results of all experiments that have some."""
        return [line for block in self.blocks for line in block.lines]

    @property
    def compared(self) -> list[Drawn]:
        """The figures that put experiments side by side."""
        return [drawn for block in self.blocks for drawn in block.compared]

    @property
    def experiments(self) -> list[ExperimentPart]:
        """All experiments, dataset by dataset."""
        return [experiment for block in self.blocks for experiment in block.experiments]

    @property
    def runs(self) -> list[RunPart]:
        """All runs."""
        return [run for experiment in self.experiments for run in experiment.runs]

    def figures(self) -> Iterator[tuple[str, Drawn]]:
        """Yields all figures of the report, each with a name that no other figure has."""
        for drawn in self.compared:
            yield drawn.name, drawn
        for run in self.runs:
            confusions = [run.confusions.drawn] if run.confusions else []
            for drawn in (*run.accuracy, *confusions, *run.memory, *run.communication):
                yield f"{run.name}-{drawn.name}", drawn


def make_report(paths: Iterable[str | Path], samples: int = SAMPLES, drawn: int = DRAWN) -> Report:
    """Reads the runs in folders, and makes the tables and figures of the report.

    Args:
        paths: Run directories, or folders of them.
        samples: How many samples of each memory are shown, at most.
        drawn: How many runs are shown with figures and memories, at most; the others with their
            accuracies alone.
    """
    experiments = read_experiments(paths)
    names = {experiment_key(e.runs[0].settings): e.named for e in experiments}
    runs = [run for experiment in experiments for run in experiment.runs]
    finished = [(run.settings, run.result) for run in runs if run.finished]
    lines = compare_results(finished, names) if finished else []  # A is defined at a run's end
    return Report(make_blocks(experiments, lines, samples, drawn))


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
        few=len(report.experiments) <= FEW,
        columns=result_tables.columns,
        cells=result_tables.cells,
        named_cells=result_tables.named_cells,
        common=result_tables.common,
        bound=result_tables.about_joint,
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
