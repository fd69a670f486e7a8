"""Feeds by the names that the command line has, and held-out samples in the same formats."""

from __future__ import annotations

import sys
from pathlib import Path

from ofcl.data.live.json_lines import JsonLines
from ofcl.data.live.sample import Feed, Sample
from ofcl.data.live.sample_reader import Position, SampleReader
from ofcl.data.live.watched_folder import WatchedFolder, visible_files
from ofcl.data.options import Reading
from ofcl.errors import OfclError
from ofcl.own_parts.kinds import installed
from ofcl.own_parts.lookup import find_function
from ofcl.state import State

WATCH, STDIN = "watch:", "-"


def open_feed(name: str, how: Reading, task: str | None, idle: float | None) -> Feed:
    """Makes the feed of a name.

    Args:
        name: `watch:FOLDER`, `-` for standard input, or `KIND:ARGUMENT` for a feed that an
            installed package announces as KIND; it is made of the argument, `how` and `task`.
        how: The options of reading.
        task: The column whose value changes when a task ends; None: there is none.
        idle: The seconds without a new file after which a watched folder ends; None: never.

    Raises:
        OfclError: There is no such feed.
    """
    if name == STDIN:
        if sys.stdin is None:
            raise OfclError("standard input is closed; nothing can be read from it")
        return JsonLines(sys.stdin.buffer, how, task)
    if name.startswith(WATCH):
        return WatchedFolder(Path(name.removeprefix(WATCH)), how, task, idle)
    kind, _, argument = name.partition(":")
    if kind in installed("feed"):
        own: Feed = find_function("feed", kind, {})(argument, how, task)
        return own
    others = "".join(f", {kind}:…" for kind in sorted(installed("feed")))
    raise OfclError(
        f"unknown stream '{name}'; expected {WATCH}FOLDER, or {STDIN} (standard input){others}"
    )


def held_out_samples(path: Path, how: Reading, task: str | None, known: State) -> list[Sample]:
    """Reads all test samples of a file or folder at once, with the columns that the stream has.

    Args:
        path: The file or folder.
        how: The options of reading.
        task: The column of the tasks, which is not part of a sample; None: there is none.
        known: The facts that the stream's feed keeps, such as what the columns mean.

    Raises:
        OfclError: There is no such file or folder, or one of the samples cannot be used.
    """
    if not path.exists():
        raise OfclError(f"no file or folder '{path}' to test on")
    reader = SampleReader(how, task, known)
    files = sorted(map(Path, visible_files(str(path)))) if path.is_dir() else [path]
    folder = path if path.is_dir() else path.parent
    samples = [
        sample
        for file in files
        for sample in reader.read_file(file, str(file.relative_to(folder)), Position())
    ]
    for sample in samples:
        if sample.problem:
            raise OfclError(sample.problem)
    return samples
