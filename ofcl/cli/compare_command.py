"""`ofcl compare`: runs side by side as a table."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ofcl.cli.shared_options import Json
from ofcl.cli.show import print_comparison
from ofcl.cli.terminal import out_console, warn
from ofcl.report.comparison import compare as compare_runs

NAMED = 5  # runs that are not finished, at most


def compare(
    directories: Annotated[list[Path], typer.Argument(help="Run directories, or folders of them.")],
    as_json: Json = False,
) -> None:
    """Put runs side by side: a table of A and F, mean ± std over seeds."""
    lines, unfinished = compare_runs(directories)
    for path in unfinished[:NAMED]:
        warn(f"{path} is not finished: ofcl resume {path}")
    if len(unfinished) > NAMED:
        warn(f"{len(unfinished) - NAMED} more are not finished")
    if left_out := sum(line.left_out for line in lines):
        warn(
            f"left out: {left_out} of a seed that was run before, with the same settings and "
            "another result (other data? a GPU?); the last one in the order of names counts"
        )
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
    elif lines:
        print_comparison(out_console, lines)
