"""The contract of a method: promises that every run with it keeps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from ofcl.data.dataset import Dataset
from ofcl.errors import OfclError
from ofcl.events import Event, Learned, Round
from ofcl.experiment import Run
from ofcl.methods import METHODS, Method
from ofcl.models.head import outputs, width
from ofcl.settings.layers import make_settings
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.run_directory import RunDirectory
from ofcl.testing.contract import find_difference, require
from ofcl.testing.data import TINY, TINY_IMAGES, make_blobs, make_images
from ofcl.testing.run_contract import check_run

UNNAMED = "method-to-check"  # the name of a method that is not in METHODS
FEW_STEPS = {"synthetic": 8, "generator_steps": 2, "consolidation": 1}  # of generative methods
FEW_EPOCHS = {"fitting_epochs": 2}  # of methods that learn when they are tested
OF_EACH_CLASS = 4  # samples in a stream of which nobody announced the classes


def check_method(method: Method, dataset: Dataset | None = None, **settings: Any) -> None:
    """Checks the promises of a method, in a few short runs on the CPU.

    - A run keeps the promises of `check_run`, and there are rounds.
    - The same seed gives the same run, another seed another one.
    - A run that is stopped, and resumed from its directory, ends bit for bit like one that was not.
    - Only the model's tensors, counts and further tensors leave a client; none of the further
      tensors has one of the client's samples in it.
    - Classes that nobody announced are learned, or refused with an `OfclError`.

    Args:
        method: The method; it need not be in `ofcl.methods.METHODS`.
        dataset: The dataset; None: small images for a generative method, else small vectors.
        settings: Settings by name, in place of those of a tiny run.

    Raises:
        ContractBroken: If one of these promises is not kept.
    """
    if dataset is None:
        dataset = make_blobs(train=20) if method.generative is None else make_images(train=12)
    with _named(method) as name, tempfile.TemporaryDirectory(prefix="ofcl-") as folder:
        tiny = TINY if dataset.kind == "vector" else {**TINY_IMAGES, **FEW_STEPS}
        values = {
            **tiny,
            **FEW_EPOCHS,
            "burn_in": 1,
            "checkpoint_every": 4,
            "device": "cpu",
            **settings,
            "method": name,
        }
        whole = Run(make_settings(values), dataset, Path(folder) / "whole")
        result = check_run(whole)
        require(result.rounds > 0, "clients take part in rounds; there was none")
        _check_other_seed(whole, dataset)
        _check_stopped_run(whole, dataset, Path(folder) / "stopped")
        _check_new_classes(values, dataset)


@contextmanager
def _named(method: Method) -> Iterator[str]:
    """Yields a method's name in `METHODS`; a method that is not there is added for the context."""
    names = [name for name, known in METHODS.items() if known is method]
    if names:
        yield names[0]
        return
    METHODS[UNNAMED] = method
    try:
        yield UNNAMED
    finally:
        del METHODS[UNNAMED]


def _check_stopped_run(whole: Run, dataset: Dataset, path: Path) -> None:
    """Requires that a run that is stopped twice and resumed ends like a whole one.

    It is stopped without saving, as if its process were killed.

    Args:
        whole: The whole run, which has ended.
        dataset: The data of both runs.
        path: The directory for the run that is stopped.
    """
    events = whole.events
    first = _run_until(Run(whole.settings, dataset, path), 2 * len(events) // 3)
    different = find_difference(events[: len(first)], first)
    require(
        different is None,
        f"the same seed gives the same run; its events differ at {different}",
    )
    _run_until(Run.resume(path, dataset), len(events) // 6)
    for _ in Run.resume(path, dataset):
        pass
    assert whole.directory is not None
    different = find_difference(_end_of(whole.directory.path), _end_of(path))
    require(
        different is None,
        "a run that is stopped and resumed ends bit for bit like one that was not; it differs at "
        f"{different}",
    )


def _run_until(run: Run, count: int) -> list[Event]:
    """Iterates over a run up to a number of events, leaves it without saving, and returns them.

    Args:
        run: The run.
        count: The number of events.
    """
    iterator, events = iter(run), []
    for event in iterator:
        events.append(event)
        if len(events) == count:
            break
    iterator.close()  # type: ignore[attr-defined]
    return events


def _end_of(path: Path) -> dict[str, Any]:
    """Reads the result and the last state from a run directory, without the seconds it took."""
    result = RunDirectory(path).result()
    checkpoint = load_checkpoint(path / "checkpoint", print)
    assert result is not None
    assert checkpoint is not None
    return {"result": {**result.to_json(), "seconds": 0}, "state": checkpoint.state}


def _check_other_seed(whole: Run, dataset: Dataset) -> None:
    """Requires that another seed gives other losses; checks the updates of each round, too.

    Args:
        whole: A run that has ended; the other run has the next seed, and stops after its first
            task.
        dataset: The data of both runs.
    """
    settings = whole.settings.model_copy(update={"seed": whole.settings.seed + 1})
    run, losses = Run(settings, dataset), []
    samples = dataset.prepare(dataset.x_train)
    for event in run:
        if isinstance(event, Round):
            _check_updates(run, samples)
        elif isinstance(event, Learned):
            if event.task > 0:
                break
            losses.append(event.loss / event.samples)
    run.close()
    learned = (event for event in whole.events if isinstance(event, Learned))
    before = [event.loss / event.samples for event in learned]
    require(
        before[: len(losses)] != losses,
        "another seed gives another run; all losses of the first task are the same",
    )


def _check_updates(run: Run, samples: Tensor) -> None:
    """Requires that each client's update has only tensors of the model, and extras without samples.

    Args:
        run: The run, just after a round.
        samples: All samples that the clients may have.
    """
    numel = samples[0].numel()
    for client in run.clients:
        update, names = client.update(), client.model.state_dict().keys()
        require(
            update.state.keys() <= names,
            "an update has tensors of the model; it also has "
            f"{sorted(update.state.keys() - names)}",
        )
        for name, value in update.extras.items():
            require(
                isinstance(value, Tensor) and bool(value.isfinite().all()),
                f"besides the model, finite tensors leave a client; '{name}' is {value!r}",
            )
            require(
                not _pieces(samples, numel) & _pieces(value, numel),
                f"no sample ever leaves a client; '{name}' of its update has one",
            )


def _pieces(values: Tensor, numel: int) -> set[bytes]:
    """Cuts a tensor into pieces of a sample's size, to look for samples among them.

    Args:
        values: The tensor.
        numel: The number of values of a sample.

    Returns:
        The pieces as bytes; empty if the tensor's size is no multiple of a sample's.
    """
    if values.numel() % numel:
        return set()
    pieces = values.detach().cpu().float().reshape(-1, numel).numpy()
    return {piece.tobytes() for piece in pieces}


def _check_new_classes(values: dict[str, Any], dataset: Dataset) -> None:
    """Requires that a run on streams learns classes that nobody announced, or refuses them.

    Args:
        values: The settings of the run by name.
        dataset: The data of which the streams are made, class after class.
    """
    clients = int(values["clients"])
    values = {name: v for name, v in values.items() if name not in ("tasks", "checkpoint_every")}
    rows_of = [(dataset.y_train == c).nonzero()[:, 0].tolist() for c in range(len(dataset.labels))]
    by_class = [row for rows in rows_of for row in rows[:OF_EACH_CLASS]]
    rows = by_class * 2  # the second time, a round follows upon each class
    items = [(dataset.x_train[row], dataset.labels[int(dataset.y_train[row])]) for row in rows]
    settings = make_settings({**values, "burn_in": 0, "q": 1})
    try:
        run = Run(settings, streams=[items[k::clients] for k in range(clients)])
        check_run(run)
    except OfclError:
        return
    wide = [width(run.server.model), *(outputs(client.model) for client in run.clients)]
    require(
        min(wide) >= len(dataset.labels),
        f"a model has an output for each of the {len(dataset.labels)} classes that have come; the "
        f"server's and the clients' have {wide}",
    )
