"""Tests of what was learned in earlier runs: their test data, if these are still at hand."""

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
        start: The start, whose parts say whether they are tested.
        clients: The earlier tasks of each client.
        events: The tests that the earlier runs have made, of the parts that are tested.
        warnings: A line about each part that is not tested.
    """

    start: Start
    clients: list[Earlier]
    events: list[Event]
    warnings: list[str]


def read_earlier_tests(
    start: Start, settings: Settings, load: Loader, device: torch.device, *, again: bool
) -> EarlierTests:
    """Reads the test data of earlier runs, as they were dealt to the clients then.

    Data that are not at hand, or have changed, are not tested. Nothing is downloaded.

    Args:
        start: The start of the run.
        settings: The settings of the new run.
        load: Loads the datasets that earlier settings name.
        device: The device that learns.
        again: Whether the new run is resumed: what it tested must be at hand, and nothing else is
            tested.

    Raises:
        OfclError: If a resumed run has tested data that are not at hand.
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
    """Returns the earlier tests of some tasks, without what they say of other tasks.

    Args:
        evaluated: The tests of the earlier runs.
        tasks: The numbers of the tasks that are tested in the new run too.
    """

    def kept(hits: Hits) -> Hits:
        """Returns the counts of each task; [] for tasks that are not tested."""
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
    """Joins the held-out samples that one client has of each part.

    Args:
        start: The start, with the number of each part's tasks.
        of_parts: The held-out samples of each part.
    """
    tasks = [part.tasks for part in start.parts]
    test = [(held_out.test, n) for held_out, n in zip(of_parts, tasks, strict=True)]
    validation = [(held_out.validation, n) for held_out, n in zip(of_parts, tasks, strict=True)]
    held_out = HeldOutParts(JoinedHeldOut(test), JoinedHeldOut(validation))
    return Earlier(start.first_task, held_out)


def _nothing(part: Part) -> HeldOutParts:
    """Returns held-out samples of a part that is not tested: none in each of its tasks."""
    empty = HeldOut(torch.empty(0, 1), torch.empty(0, dtype=torch.long),
                    [np.empty(0, dtype=np.int64)] * part.tasks)  # fmt: skip
    return HeldOutParts(empty, empty)


def _held_out(
    part: Part, start: Start, settings: Settings, load: Loader, device: torch.device
) -> list[HeldOutParts]:
    """Reads the data of a part, and deals the held-out samples to the clients as they were dealt.

    Args:
        part: The part.
        start: The start, whose labels and form the data get.
        settings: The settings of the new run, which say where named datasets are now.
        load: Loads the dataset.
        device: The device that learns.

    Returns:
        The held-out samples of each client.

    Raises:
        OfclError: If the data are not at hand, or are others.
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
    """Makes held-out samples of the rows that are used alone, so that the rest can be forgotten.

    Args:
        x: All samples (n, …).
        y: Their classes (n,).
        rows_of_tasks: The rows of each task.
        prepare: Turns samples into the model's input.
        device: The device that learns.
    """
    rows = torch.from_numpy(np.concatenate(rows_of_tasks))
    ends = np.cumsum([len(of_task) for of_task in rows_of_tasks])
    places = np.split(np.arange(len(rows)), ends[:-1])
    return HeldOut(x[rows].to(device), y[rows], places, prepare)
