"""Reading a start from a run directory, finished or not; nothing in the directory is changed."""

from __future__ import annotations

import contextlib
import tomllib
from dataclasses import replace
from pathlib import Path

from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.dealing import Loader
from ofcl.assembly.start import Part, Start, model_digest, start_from_json
from ofcl.bundle.bundle_files import DESCRIPTION, is_bundle
from ofcl.bundle.description import from_json
from ofcl.bundle.open_bundle import FINAL, OF_TASKS
from ofcl.data.sample_forms import ImageForm, SampleForm, VectorForm
from ofcl.errors import OfclError
from ofcl.events import Evaluated
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint
from ofcl.storage.recorder import first_events
from ofcl.storage.run_directory import RunDirectory


def start_from_run(path: str | Path) -> Start:
    """Reads what a run can go on from: the last checkpoint in a run directory.

    A task in which the earlier run was stopped counts as ended, without a test.

    Args:
        path: The run directory.

    Raises:
        OfclError: If there is no run, nothing was learned in it, or its clients are elsewhere.
    """
    directory = RunDirectory(path)
    try:
        description, settings = directory.description(), directory.settings()
    except tomllib.TOMLDecodeError as error:
        raise OfclError(f"'{path}': settings.toml is not valid TOML: {error}") from None
    _check_can_go_on(path, settings)
    checkpoint = load_checkpoint(directory.checkpoints, lambda line: None)
    if checkpoint is None:
        raise OfclError(
            f"'{path}' has no checkpoint: nothing was learned there yet, or its memories were "
            f"deleted. A model alone is a start too: {Path(path) / FINAL}"
        )
    before = directory.start()
    earlier = start_from_json(before) if before else None
    clients = [next_part(client) for client in checkpoint.state["engine"]["clients"]]
    first = earlier.first_task if earlier else 0
    if not settings.streams:  # all clients have as many tasks
        clients = [_begins_with(client, clients) for client in clients]
    known, server = checkpoint.state["parties"], checkpoint.state["server"]
    part = Part(
        settings=settings.model_dump(mode="json"),
        fingerprint=description.get("fingerprint") or "",
        first=first,
        tasks=max(int(client["task"]) for client in clients) - first,
        went_on=earlier is not None,
    )
    return Start(
        name=str(path),
        digest=model_digest(server["model"]),
        settings=part.settings,
        labels=tuple(known["labels"]),
        form=earlier.form if earlier else _form(directory, settings, clients),
        parts=(*(earlier.parts if earlier else ()), part),
        model=server["model"],
        server={**server, "closing": False},
        clients=tuple(clients),
        pattern={"kind": known["kind"], "shape": known["shape"]} if settings.streams else {},
        evaluated=tuple(_evaluated(directory, checkpoint)),
    )


def _check_can_go_on(path: str | Path, settings: Settings) -> None:
    """Raises an error if a run cannot be gone on from, whatever it has learned.

    Args:
        path: The run directory.
        settings: The settings of the run in it.
    """
    if settings.engine != "local":
        raise OfclError(
            f"'{path}' was run with engine = '{settings.engine}': its clients' memories are not in "
            f"the run directory. Go on from its model alone: {Path(path) / FINAL}"
        )
    if settings.joint:
        raise OfclError(f"'{path}' learned all tasks at once (joint), as a bound to compare with; "
                        "a run cannot go on from it")  # fmt: skip
    if chosen_method(settings).generative is not None:
        raise OfclError(
            f"'{path}' was run with the method {settings.method}, whose generator has all classes "
            "from the start; a run can go on with a memory method, for example bi"
        )


def next_part(client: State) -> State:
    """Returns the state of a client before the first mini-batch of the next run, without a stream.

    Args:
        client: The state of the client in the last checkpoint of the run before.
    """
    stopped = int(client["batches"]) > 0  # within a task, or before its test
    seen = [*client["seen"], [c for c, _ in client["classes"]]] if stopped else client["seen"]
    begun = {name: value for name, value in client.items() if name != "stream"}
    return begun | {
        "task": len(seen),
        "seen": seen,
        "waiting": False,
        "finished": False,
        "between_tasks": False,
        "closed": False,
        "batches": 0,
        "classes": [],
        "earlier_stream": client["stream"],
    }


def _begins_with(client: State, clients: list[State]) -> State:
    """Lets a client begin with the task with which all begin, though it was stopped before others.

    Args:
        client: The state of the client.
        clients: The states of all clients.
    """
    first = max(int(other["task"]) for other in clients)
    missing: list[list[int]] = [[]] * (first - int(client["task"]))
    return {**client, "task": first, "seen": [*client["seen"], *missing]}


def _form(directory: RunDirectory, settings: Settings, clients: list[State]) -> SampleForm:
    """Finds the form of a run's samples: in its bundle, or in what a run without one leaves.

    Args:
        directory: The run directory.
        settings: The settings of the run.
        clients: The clients' states, whose memories have samples.

    Raises:
        OfclError: If nothing tells the shape of the samples.
    """
    bundles = [directory.path / FINAL, *sorted((directory.path / OF_TASKS).glob("task-*"))]
    for folder in bundles:
        if is_bundle(folder):
            text = (folder / DESCRIPTION).read_text(encoding="utf-8", errors="replace")
            with contextlib.suppress(OfclError):  # a damaged one is not needed
                return from_json(text).samples
    description = directory.description()
    if not settings.streams:
        with contextlib.suppress(OfclError):  # the data may be gone; the form may tell enough
            dataset = Loader()(settings)
            if dataset.fingerprint() == description.get("fingerprint"):
                return dataset.sample_form
    form = description.get("form", {})
    shape = tuple(form.get("shape") or _shape_of_memories(clients))
    if not shape:
        raise OfclError(f"'{directory.path}' does not tell the shape of its samples; an earlier "
                        "version of ofcl made it, or no round was held")  # fmt: skip
    if form.get("kind") == "image":
        return ImageForm(shape, tuple(form["mean"]), tuple(form["std"]))
    return VectorForm(shape[0])


def _shape_of_memories(clients: list[State]) -> list[int]:
    """Returns the shape of a sample that a client remembers; [] if there is none."""
    memories = (client["learner"].get("memory") for client in clients)
    found = (list(m["x"].shape[1:]) for m in memories if m is not None and len(m["x"]))
    return next(found, [])


def _evaluated(directory: RunDirectory, checkpoint: Checkpoint) -> list[Evaluated]:
    """Lists the tests that a run has made, those of the runs before it included.

    Args:
        directory: The run directory.
        checkpoint: The run's last checkpoint; later events do not count.
    """
    events = first_events(directory, checkpoint.events)
    tests = [event for event in events if isinstance(event, Evaluated)]
    return [replace(event, confusions=[]) for event in tests]  # these are of the last task alone
