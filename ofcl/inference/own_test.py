"""The samples that a run's clients were tested on, read again by the run's settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ofcl.assembly.dealing import Loader, build_reading, build_shares
from ofcl.assembly.stream_clients import ITERATOR
from ofcl.bundle.trained_model import TrainedModel
from ofcl.data.files.labels import label_name
from ofcl.data.live.feeds import held_out_samples
from ofcl.data.live.live_agreement import Row
from ofcl.data.live.sample import Sample
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm, TextForm
from ofcl.errors import OfclError
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory

Rows = list[list[np.ndarray]]
"""For each client and task, the rows of its samples."""

GIVE_DATA = "give the samples to evaluate on: ofcl evaluate MODEL DATA"


@dataclass(frozen=True)
class OwnTest:
    """The test samples of a run.

    Args:
        name: Their name, for people.
        inputs: Returns the network's inputs (n, …) of some samples, by their rows.
        classes: The class of each sample (n,).
        rows_of_clients: For each client and task, the rows of its samples.
        unknown: The number of samples of each label that the model does not know.
    """

    name: str
    inputs: Callable[[np.ndarray], Tensor]
    classes: np.ndarray
    rows_of_clients: Rows
    unknown: dict[str, int]


def run_of(path: Path) -> RunDirectory | None:
    """Finds the run directory of a model; None: it was copied out of it.

    Args:
        path: The path of the model: a run directory, or a bundle in it.
    """
    whole = path.resolve()
    for folder in (whole, whole.parent, whole.parent.parent):
        if (folder / "settings.toml").is_file() and (folder / "events.jsonl").is_file():
            return RunDirectory(folder)
    return None


def own_test(
    directory: RunDirectory, model: TrainedModel, load: Loader, tell: Callable[[str], None]
) -> OwnTest:
    """Reads the samples that the clients of a run were tested on.

    Args:
        directory: The run directory.
        model: The run's model.
        load: Loads the dataset that the settings name.
        tell: Is given a warning for the user.

    Raises:
        OfclError: If the data are gone, or others than those of the run.
    """
    settings = directory.settings()
    if settings.streams:
        return _of_streams(directory, settings, model)
    description = directory.description()
    if not description.get("fingerprint"):
        raise OfclError(f"'{directory.path}' does not know its data (a federation?); {GIVE_DATA}")
    try:
        dataset = load(settings)
    except OfclError as error:
        raise OfclError(f"the run's data cannot be read: {error}. Else {GIVE_DATA}") from None
    directory.check_data(dataset.fingerprint(), tell)
    shares = build_shares(settings, dataset)
    done = len(model.description.learned.tasks)  # fewer, if it is of the end of an earlier task
    tasks = None if settings.joint or not done else done
    rows = [list(share.test[:tasks]) for share in shares]

    def inputs(some: np.ndarray) -> Tensor:
        """Prepares samples as the clients did."""
        return dataset.prepare(dataset.x_test[torch.from_numpy(some)])

    name = f"{settings.dataset} (test samples of the clients)"
    return OwnTest(name, inputs, dataset.y_test.numpy(), rows, {})


def _of_streams(directory: RunDirectory, settings: Settings, model: TrainedModel) -> OwnTest:
    """Reads the test samples of a run over streams; tasks are those that each client has had."""
    if settings.test is None:
        raise OfclError(f"the streams of '{directory.path}' were tested on no file; {GIVE_DATA}")
    if set(settings.streams) == {ITERATOR}:
        known: dict[str, Any] = {}
    else:
        known = _columns(model.description.samples)
    samples = held_out_samples(Path(settings.test), build_reading(settings), settings.task, known)
    places = {label: c for c, label in enumerate(model.labels)}
    labels = [label_name(sample.label) for sample in samples]
    classes = np.array([places.get(label, -1) for label in labels], dtype=np.int64)
    last = {
        event["client"]: event["global_test"]
        for event in directory.iterate_events()
        if event["event"] == "evaluated"
    }
    rows = [
        [np.flatnonzero(np.isin(classes, [c for c, _, _ in task])) for task in tasks]
        for _, tasks in sorted(last.items())
    ]
    return OwnTest(
        f"{settings.test} (test samples of the streams)",
        lambda some: model.prepare([_content(samples[row]) for row in some.tolist()]),
        classes,
        rows,
        dict(Counter(label for label in labels if label not in places)),
    )


def _content(sample: Sample) -> Any:
    """Returns a sample as a model takes it: a row as its cells by column."""
    return sample.x.cells if isinstance(sample.x, Row) else sample.x


def _columns(form: SampleForm) -> dict[str, Any]:
    """Returns the columns that a stream's samples had, as its feed kept them."""
    if isinstance(form, ImageForm) or form.label is None:
        return {}
    if isinstance(form, TableForm):
        kind = "mixed" if form.codes else "numbers"
        return {"label": form.label, "kind": kind, "columns": form.columns}
    if form.column is None:
        return {}
    kind = "text" if isinstance(form, TextForm) else "list"
    return {"label": form.label, "kind": kind, "columns": (form.column,)}


def without_others(test: OwnTest) -> tuple[np.ndarray, OwnTest]:
    """Leaves out samples that no client was tested on.

    Args:
        test: The test samples.

    Returns:
        The rows of the samples that stay, and the test with these rows counted anew.
    """
    every = [rows for tasks in test.rows_of_clients for rows in tasks]
    used = np.unique(np.concatenate([*every, np.empty(0, dtype=np.int64)])).astype(np.int64)
    again = [[np.searchsorted(used, rows) for rows in tasks] for tasks in test.rows_of_clients]
    return used, replace(test, classes=test.classes[used], rows_of_clients=again)
