"""Clients that learn their shares of a dataset, in this process or in others."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from ofcl.assembly.checks import check_run, check_settings, find_oddities
from ofcl.assembly.dealing import Loader, build_shares, task_lengths
from ofcl.assembly.describe_backbone import describe_backbone
from ofcl.assembly.earlier_tests import EarlierTests, read_earlier_tests
from ofcl.assembly.fitting import describe_fit
from ofcl.assembly.inheritance import check_embedder, check_start
from ofcl.assembly.make_client import build_dataset_client
from ofcl.assembly.make_server import build_server
from ofcl.assembly.participants import Participants, form_of
from ofcl.assembly.resolve import find_device, resolve, resolve_alone
from ofcl.assembly.start import Start
from ofcl.assembly.step_path import find_step_path
from ofcl.assembly.take_over import relabelled, take_over
from ofcl.assembly.unused_settings import find_unused
from ofcl.client import Client
from ofcl.data.dataset import Dataset
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.scenario import Share
from ofcl.own_parts.handed_over import hand_over_as
from ofcl.settings.schema import Settings
from ofcl.state import flatten, unflatten


def dataset_participants(
    settings: Settings,
    dataset: Dataset | None = None,
    load: Loader | None = None,
    *,
    elsewhere: bool = False,
    start: Start | None = None,
    again: bool = False,
    bounded: bool = False,
) -> Participants:
    """Prepares the clients and the server of a run over a dataset.

    Args:
        settings: The run's settings.
        dataset: The data; None: the dataset that the settings name.
        load: Loads the dataset that the settings name; None: a new loader that reports nothing.
        elsewhere: Whether the clients are in other processes, which make them by `ClientFactory`;
            then only the server is made here.
        start: The earlier run or model that this run goes on from (`--from`); None: it begins anew.
        again: Whether this run itself was stopped and is resumed, with or without a `start`.
        bounded: Whether the server bounds updates, as it does between parties.
    """
    check_settings(settings)
    if start is not None:
        check_embedder(settings, start)
    load = load or Loader()
    dataset = dataset or load(settings, start.form if start is not None else None)
    if start is not None:
        dataset = relabelled(dataset, start)
    asked, settings = settings, resolve_alone(resolve(settings, dataset))
    if start is not None:
        check_start(settings, dataset, start)
    shares = build_shares(settings, dataset, start.first_task if start is not None else None)
    classes = {c for share in shares for task in share.tasks for c in task}
    check_run(settings, dataset, len(classes | set(range(len(start.labels) if start else 0))))
    warnings = [*dataset.notes, *find_oddities(settings, shares)]
    if start is None and not again:  # many settings of a run that goes on are inherited
        warnings += find_unused(asked, settings, dataset.kind)
    fingerprint = dataset.fingerprint()
    dataset = dataset.to(find_device(settings.device))
    if start is not None:
        earlier = read_earlier_tests(
            start, settings, load, find_device(settings.device), again=again
        )
        return _going_on(settings, dataset, shares, earlier, warnings, fingerprint)
    make = client_maker(settings, dataset, shares)
    server = build_server(settings, dataset, (lambda client, what: None) if bounded else None)
    return Participants(
        settings=settings,
        clients=[] if elsewhere else [make(number) for number in range(len(shares))],
        server=server,
        backbone=describe_backbone(settings, server),
        steps=find_step_path([make(0).learner]) if elsewhere else None,
        vocabulary=Vocabulary(dataset.labels),
        fitted=describe_fit(asked, settings),
        warnings=warnings,
        batches=sum(sum(task_lengths(settings, share)) for share in shares),
        form=form_of(dataset),
        sample_form=lambda: dataset.sample_form,
        fingerprint=fingerprint,
    )


def _going_on(
    settings: Settings,
    dataset: Dataset,
    shares: Sequence[Share],
    earlier: EarlierTests,
    warnings: list[str],
    fingerprint: str,
) -> Participants:
    """Prepares the clients and the server of a run that goes on from an earlier one.

    Args:
        settings: The run's settings, resolved.
        dataset: The dataset, whose classes are those of the start, on the run's device.
        shares: The rows of the dataset that each client gets.
        earlier: The start, and the tests of what was learned before.
        warnings: Lines about settings that work but are hardly meant.
        fingerprint: A checksum of the dataset.
    """
    start = earlier.start
    # Heads start without classes: what was learned, and then the new classes, let them grow.
    clients = [
        build_dataset_client(settings, dataset, k, share, 0, earlier.clients[k])
        for k, share in enumerate(shares)
    ]
    samples = {name: value[:0] for name, value in vars(dataset).items()
               if name.startswith(("x_", "y_")) and value is not None}  # fmt: skip
    server = build_server(settings, replace(dataset, **samples, labels=()))
    take_over(start, clients, server, settings.seed)
    return Participants(
        settings=settings,
        clients=clients,
        server=server,
        vocabulary=Vocabulary(dataset.labels),
        warnings=[*warnings, *earlier.warnings],
        batches=sum(sum(task_lengths(settings, share)) for share in shares),
        form=form_of(dataset),
        sample_form=lambda: start.form,
        fingerprint=fingerprint,
        start=start,
        events=earlier.events,
    )


def client_maker(
    settings: Settings, dataset: Dataset, shares: Sequence[Share]
) -> Callable[[int], Client]:
    """Returns a function that takes a client's number and makes this client.

    Args:
        settings: The run's settings, resolved.
        dataset: The whole dataset, on the run's device.
        shares: The rows of the dataset that each client gets.
    """
    return lambda number: build_dataset_client(settings, dataset, number, shares[number])


@dataclass(frozen=True)
class ClientFactory:
    """Makes clients in another process.

    It is pickled and sent there, so it has no samples, only the names of settings and files from
    which the other process reads them.

    Args:
        settings: The run's settings, resolved.
        saved: The folder in which `save_dataset` has saved a dataset from Python; None: the other
            process loads the dataset that the settings name.
        parts: Parts of the user's own that were given as Python objects, by kind and name.
    """

    settings: Settings
    saved: Path | None = None
    parts: dict[tuple[str, str], Any] = field(default_factory=dict)

    def __call__(self) -> Callable[[int], Client]:
        """Reads the data; returns a function that takes a client's number and makes this client."""
        settings = self.settings
        for (kind, name), part in self.parts.items():
            hand_over_as(kind, name, part)
        dataset = load_saved(self.saved) if self.saved is not None else Loader()(settings)
        shares = build_shares(settings, dataset)
        return client_maker(settings, dataset.to(find_device(settings.device)), shares)


def save_dataset(dataset: Dataset, folder: Path) -> Path:
    """Saves a dataset in a folder, for other processes that make clients of it.

    Args:
        dataset: The dataset.
        folder: The folder, which is made if it is missing.

    Returns:
        The same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors, tree = flatten({**vars(dataset), "labels": list(dataset.labels), "form": None})
    save_file(tensors, folder / "dataset.safetensors")
    (folder / "dataset.json").write_text(json.dumps(tree))
    return folder


def load_saved(folder: Path) -> Dataset:
    """Loads the dataset that `save_dataset` has saved in a folder.

    Args:
        folder: The folder.
    """
    tree = json.loads((folder / "dataset.json").read_text())
    values = unflatten(load_file(folder / "dataset.safetensors"), tree)
    lists = {name: tuple(v) for name, v in values.items() if isinstance(v, list)}
    return Dataset(**{**values, **lists})
