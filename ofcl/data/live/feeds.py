"""Where live samples come from: an iterator, a folder that is watched, standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from ofcl.data.live.json_lines import JsonLines
from ofcl.data.live.sample import Feed, Sample
from ofcl.data.live.sample_reader import Position, SampleReader
from ofcl.data.live.watched_folder import WatchedFolder, visible_files
from ofcl.data.options import Reading
from ofcl.errors import OfclError
from ofcl.state import State

WATCH, STDIN = "watch:", "-"


def open_feed(name: str, how: Reading, task: str | None, idle: float | None) -> Feed:
    """A feed by the name that the command line has for it."""
    if name == STDIN:
        if sys.stdin is None:
            raise OfclError("standard input is closed; nothing can be read from it")
        return JsonLines(sys.stdin.buffer, how, task)
    if name.startswith(WATCH):
        return WatchedFolder(Path(name.removeprefix(WATCH)), how, task, idle)
    raise OfclError(f"unknown stream '{name}'; expected {WATCH}FOLDER, or {STDIN} (standard input)")


def held_out_samples(path: Path, how: Reading, task: str | None, known: State) -> list[Sample]:
    """All samples of a file or folder at once, read as those of a stream are."""
    if not path.exists():
        raise OfclError(f"no file or folder '{path}' to test on")
    rows = SampleReader(how, task, known)
    files = sorted(map(Path, visible_files(str(path)))) if path.is_dir() else [path]
    folder = path if path.is_dir() else path.parent
    samples = [
        sample
        for file in files
        for sample in rows.of_file(file, str(file.relative_to(folder)), Position())
    ]
    for bad in samples:
        if bad.problem:
            raise OfclError(bad.problem)
    return samples
