"""Tests of what was learned in earlier runs, on the data of those runs if they are still there.

A run may go on from a chain of earlier runs. Each of them is a `Part` of its `Start`. Held-out
samples are those that are never learned: a client's test samples and its validation samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ofcl.assembly.dealing import Loader, build_reading, build_shares
from ofcl.assembly.make_client import Earlier
from ofcl.assembly.start import Part, Start
from ofcl.assembly.take_over import relabelled
from ofcl.data.named.catalogue import DATASETS
from ofcl.errors import OfclError
from ofcl.evaluation.held_out import HeldOut, HeldOutParts
from ofcl.evaluation.joined_held_out import JoinedHeldOut
from ofcl.events import Evaluated, Event, Hits
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings


@dataclass(frozen=True)
class EarlierTests:
    """The tests of what was learned in earlier runs.

    Args:
        start: The start of the new run, in which each earlier run is marked as tested or not.
        clients: For each client, the number of its earlier tasks, and their held-out samples.
        events: The tests that the earlier runs themselves have recorded, for the tested ones.
        warnings: A line for the user about each earlier run that is not tested.
    """

    start: Start
    clients: list[Earlier]
    events: list[Event]
    warnings: list[str]


def read_earlier_tests(
    start: Start, settings: Settings, load: Loader, device: torch.device, *, again: bool
) -> EarlierTests:
    """Reads the held-out samples of earlier runs; each client gets those that it had then.

    An earlier run is not tested if its data are gone or have changed. Nothing is downloaded.

    Args:
        start: The start of the new run, with its earlier runs.
        settings: The settings of the new run.
        load: Loads the datasets that the settings of the earlier runs name.
        device: The device on which the new run learns.
        again: Whether the new run is resumed. Then exactly those earlier runs are tested that were
            tested when it began.

    Raises:
        OfclError: If a resumed run has tested data that are gone or have changed.
    """
    of_parts: list[list[HeldOutParts]] = []
    tested, warnings = list[bool](), list[str]()
    if not start.parts:
        warnings.append(f"what '{start.name}' has learned before is not tested: a model has no "
                        "test data. A and F are of the new tasks alone")  # fmt: skip
    for part in start.parts:
        nothing = [_nothing(part)] * settings.clients
        try:
            if again and not part.tested:
                of_parts.append(nothing)
                continue
            of_parts.append(_held_out(part, start, settings, load, device))
            tested.append(True)
        except OfclError as error:
            if again:
                raise OfclError(f"this run tests what was learned before, but {error}") from None
            warnings.append(
                f"what was learned before is not tested, and A and F leave it out: {error}"
            )
            of_parts.append(nothing)
            tested.append(False)
    clients = [_joined(start, [held_out[k] for held_out in of_parts])
               for k in range(settings.clients)]  # fmt: skip
    if again:
        return EarlierTests(start, clients, [], [])
    start = start.with_tested(tested)
    tasks = {t for p in start.parts if p.tested for t in range(p.first, p.first + p.tasks)}
    return EarlierTests(start, clients, _events(start.evaluated, tasks), warnings)


def _events(evaluated: Sequence[Evaluated], tasks: Collection[int]) -> list[Event]:
    """Chooses, of the recorded tests of earlier runs, those of tasks that are still tested.

    Args:
        evaluated: The recorded tests.
        tasks: The numbers of the tasks that the new run tests too.

    Returns:
        The tests at the end of these tasks, without their counts for other tasks.
    """

    def kept(hits: Hits) -> Hits:
        """Returns the counts of right answers for each task; [] for tasks that are not tested."""
        return [of_task if t in tasks else [] for t, of_task in enumerate(hits)]

    return [
        replace(
            event,
            test=kept(event.test),
            validation=kept(event.validation),
            global_test=kept(event.global_test),
        )
        for event in evaluated
        if event.task in tasks
    ]


def _joined(start: Start, of_parts: Sequence[HeldOutParts]) -> Earlier:
    """Joins one client's held-out samples of all earlier runs, so that they are tested together.

    Args:
        start: The start of the new run, which has the number of tasks of each earlier run.
        of_parts: The client's held-out samples of each earlier run, in the order of `start.parts`.

    Returns:
        The number of the first new task, and the joined samples of all tasks before it.
    """
    tasks = [part.tasks for part in start.parts]
    test = [(held_out.test, n) for held_out, n in zip(of_parts, tasks, strict=True)]
    validation = [(held_out.validation, n) for held_out, n in zip(of_parts, tasks, strict=True)]
    held_out = HeldOutParts(JoinedHeldOut(test), JoinedHeldOut(validation))
    return Earlier(start.first_task, held_out)


def _nothing(part: Part) -> HeldOutParts:
    """Makes the held-out samples of an earlier run that is not tested: none for each task."""
    empty = HeldOut(torch.empty(0, 1), torch.empty(0, dtype=torch.long),
                    [np.empty(0, dtype=np.int64)] * part.tasks)  # fmt: skip
    return HeldOutParts(empty, empty)


def _held_out(
    part: Part, start: Start, settings: Settings, load: Loader, device: torch.device
) -> list[HeldOutParts]:
    """Reads the dataset of an earlier run, and deals its held-out samples as that run dealt them.

    Args:
        part: The earlier run.
        start: The start of the new run. Its labels say which class each label is, and its form
            says how samples are read.
        settings: The settings of the new run, which say where named datasets are now.
        load: Loads the dataset.
        device: The device on which the new run learns.

    Returns:
        The held-out samples of each client.

    Raises:
        OfclError: If the dataset is gone or has changed, or if the earlier run had streams.
    """
    if part.settings["streams"]:
        raise OfclError("it came in streams")
    before = make_settings({**part.settings, "data_root": settings.data_root})
    source = DATASETS.get(before.dataset)
    if source is not None and not source.present(build_reading(before).root):
        raise OfclError(f"the dataset '{before.dataset}' is not on this machine")
    dataset = relabelled(load(before, start.form), start)
    if dataset.fingerprint() != part.fingerprint:
        raise OfclError(f"'{before.dataset}' has changed since, or cannot be compared")
    shares = build_shares(before, dataset, part.first if part.went_on else None)
    validation: tuple[Tensor, Tensor] = (dataset.x_train, dataset.y_train)
    if dataset.x_validation is not None and dataset.y_validation is not None:
        validation = (dataset.x_validation, dataset.y_validation)
    return [
        HeldOutParts(
            _compact(dataset.x_test, dataset.y_test, share.test[: part.tasks], dataset.prepare,
                     device),
            _compact(*validation, share.validation[: part.tasks], dataset.prepare, device),
        )
        for share in shares
    ]  # fmt: skip


def _compact(
    x: Tensor,
    y: Tensor,
    rows_of_tasks: Sequence[np.ndarray],
    prepare: Callable[[Tensor], Tensor],
    device: torch.device,
) -> HeldOut:
    """Copies the rows that a client is tested on to the device, so that the dataset can be freed.

    Args:
        x: All samples of a dataset (n, …).
        y: Their classes (n,).
        rows_of_tasks: For each task, the rows of the client's held-out samples.
        prepare: Turns samples into the model's input.
        device: The device on which the new run learns.
    """
    rows = torch.from_numpy(np.concatenate(rows_of_tasks))
    ends = np.cumsum([len(of_task) for of_task in rows_of_tasks])
    places = np.split(np.arange(len(rows)), ends[:-1])
    return HeldOut(x[rows].to(device), y[rows], places, prepare)
