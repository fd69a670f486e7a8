"""Lines for the user about streams: columns left out; at the end, who knows what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ofcl.client import Client
from ofcl.data.live.feeds import WATCH
from ofcl.data.live.watched_folder import changed_files
from ofcl.data.raw import quote_labels
from ofcl.settings.schema import Settings
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.run_directory import RunDirectory

FEW = 5  # files that are named


def describe_left_out(left_out: Mapping[str, str]) -> str:
    """Says which columns of streams are not learned from; empty: all are.

    Args:
        left_out: Why columns are left out, by their names.
    """
    if not left_out:
        return ""
    why = "; ".join(f"{name} ({reason})" for name, reason in left_out.items())
    return (f"columns left out: {why}. To have one in, name all columns to learn from: "
            "--columns a --columns b …")  # fmt: skip


def describe_end(
    settings: Settings, clients: Sequence[Client], labels: tuple[str, ...], tested: Iterable[str]
) -> list[str]:
    """Says which client knows which classes, which test classes have not come, and what ended.

    Args:
        settings: The run's settings.
        clients: The clients, whose streams have ended.
        labels: The labels of the run, in the order of their classes.
        tested: The labels of the test samples; empty: there are none.
    """
    lines = []
    if tested := set(tested):
        for client in clients:
            classes = np.array(sorted({c for task in client.classes_of_tasks for c in task}))
            names = quote_labels(labels, classes) if len(classes) else "no class"
            lines.append(f"client {client.number} has seen {names}")
        if missing := tuple(sorted(tested - set(labels))):
            names = quote_labels(missing, np.arange(len(missing)))
            lines.append(f"test classes that have come to nobody, and are not tested: {names}")
    if settings.idle is not None and any(name.startswith(WATCH) for name in settings.streams):
        lines.append(
            f"watched folders ended after {settings.idle:g} s without a new file (--idle); files "
            "that come later are learned by a run that goes on from this one (--from)"
        )
    return lines


def find_late_files(directory: RunDirectory) -> list[str]:
    """Names the files that came to the watched folders of a finished run after its end.

    Args:
        directory: The run's directory.

    Returns:
        A line for each folder with such files.
    """
    streams = directory.settings().streams
    if not any(name.startswith(WATCH) for name in streams):
        return []
    checkpoint = load_checkpoint(directory.checkpoints, lambda line: None)
    if checkpoint is None:
        return []
    lines = []
    for name, client in zip(streams, checkpoint.state["engine"]["clients"], strict=True):
        folder = Path(name.removeprefix(WATCH))
        if not name.startswith(WATCH) or not folder.is_dir():
            continue
        if late := changed_files(folder, client["stream"]["feed"]["read"]):
            more = f" and {len(late) - FEW} more" if len(late) > FEW else ""
            lines.append(
                f"not learned, as it came after the end of '{folder}': "
                f"{', '.join(late[:FEW])}{more}. Learn it with: ofcl run --from {directory.path} "
                + " ".join(f"--stream {stream}" for stream in streams)
            )
    return lines
