"""`ofcl run --seeds`: an experiment with several seeds, one after the other or several at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ofcl.assembly.dealing import Loader
from ofcl.cli.progress import track as track_progress
from ofcl.cli.run_loop import complete
from ofcl.cli.run_names import default_out
from ofcl.cli.several_runs import check_failures, check_jobs, make_runs
from ofcl.cli.show import print_comparison
from ofcl.cli.terminal import out_console, say
from ofcl.errors import OfclError
from ofcl.jobs.work import Ended, Work
from ofcl.report.comparison import compare
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory


def parse_seeds(text: str) -> list[int]:
    """Reads a list of seeds from a text such as `0,1,2`; a seed that comes twice counts once.

    Args:
        text: The text, as it was typed.

    Raises:
        OfclError: If the text is not a list of numbers.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts):
        raise OfclError(f"seeds = '{text}'; expected numbers with commas between them: 0,1,2")
    return list(dict.fromkeys(map(int, parts)))


def run_seeds(
    settings: Settings,
    seeds: list[int],
    out: Path | None,
    quiet: bool,
    as_json: bool,
    track: Sequence[str] = (),
    jobs: int = 1,
) -> None:
    """Runs an experiment with several seeds, and prints their mean.

    The dataset is read once. Called again with the same folder, it goes on where it was stopped.

    Args:
        settings: The settings of the runs; their seed is replaced.
        seeds: The seeds.
        out: The folder of the runs, which get a directory each; None: a new folder.
        quiet: Whether to show no progress.
        as_json: Whether to print the results as JSON.
        track: The names of trackers to which every run is logged.
        jobs: How many runs are made at once.
    """
    if settings.streams:
        raise OfclError("a stream comes once, for one seed: use --seed")
    folder, load = out or default_out(settings, "seeds"), Loader(track_progress, say)
    works = [
        Work(folder / f"seed{seed}", settings.model_copy(update={"seed": seed})) for seed in seeds
    ]
    ended: dict[Work, Ended] = {}
    if jobs == 1:
        for work in works:
            complete(work.path, work.settings, load, quiet or as_json, track)
    else:
        check_jobs(settings, jobs)
        if track:
            raise OfclError("trackers follow one run at a time: leave out --track or --jobs")
        load(settings)  # once: what must be downloaded or embedded is then there for all
        ended = make_runs(works, jobs, quiet or as_json, _seed_of)
    _show([work.path for work in works], folder, as_json)
    check_failures(ended, _seed_of)


def _seed_of(work: Work) -> str:
    """Names a run by its seed."""
    return f"seed {work.settings.seed}"


def _show(paths: list[Path], folder: Path, as_json: bool) -> None:
    """Prints the mean of the runs that are finished.

    Args:
        paths: The run directories.
        folder: The folder that they are in.
        as_json: Whether to print JSON.
    """
    begun = [path for path in paths if RunDirectory(path).started()]
    lines = compare(begun)[0] if begun else []
    if as_json:
        print(json.dumps({"directory": str(folder), "lines": [asdict(line) for line in lines]}))
    elif lines:
        print_comparison(out_console, lines)
        out_console.print(f"saved in {folder}", highlight=False, soft_wrap=True, markup=False)
