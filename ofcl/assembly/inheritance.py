"""Settings of a run that goes on: which it inherits, and which must be those of the run before."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.start import Start
from ofcl.data.dataset import Dataset
from ofcl.data.files.embedders import find_embedder
from ofcl.data.files.image_embedders import (
    ImageEmbedder,
    embeds_images,
    find_image_embedder,
)
from ofcl.data.sample_forms import ImageForm, TextForm
from ofcl.errors import OfclError
from ofcl.own_parts.permission import code_in
from ofcl.settings.rules import DATASETS_ONLY, STREAMS_ONLY
from ofcl.settings.schema import Settings

OF_ITS_OWN = (
    "dataset", "streams", "tasks", "limit", "drop_class", "train_head", "test_head",
    "train_per_class", "test_per_class", "joint", "device", "engine", "ray", "start",
    "cross_site",
)  # fmt: skip
"""Settings that say what is learned, and where: the new run has its own."""

OF_THE_MODEL = ("model", "width", "hidden")
"""Settings that must be the same for the model to be used."""

OF_THE_MEMORIES = ("protocol", "method", "optimizer", "keep", "scoring_model", "score_scale")
"""Settings that must be the same for memories and optimisers to be used."""

SWITCHES = ("distil", "dp_clip")
"""Settings of parts of a client that it has, or has not; only the value of one that it has may
change."""


Data = Literal["dataset", "streams", "iterators"]
"""The data of a run: a dataset, streams that the settings name, or streams from Python."""


def inherited(start: Start, data: Data) -> dict[str, Any]:
    """Returns the settings that a run takes over unless somebody gives others.

    What a protocol chose for the data of the earlier run is taken over too, not chosen anew. The
    new data are one task.

    Args:
        start: The start of the run.
        data: The data of the run.
    """
    left_out = {*OF_ITS_OWN}
    if data != "streams":
        left_out |= {*STREAMS_ONLY}
    if data != "dataset":
        left_out |= {*DATASETS_ONLY, "clients"}
    values = {name: v for name, v in start.settings.items() if name not in left_out}
    if values.get("test") and not Path(values["test"]).exists():
        del values["test"]
    return {"tasks": 1, **values} if data == "dataset" else values


def check_restated(before: dict[str, Any], given: dict[str, Any]) -> None:
    """Raises an error if a run would import code that only the files of an earlier one name.

    Args:
        before: The settings that the run takes over.
        given: The settings that somebody gave.
    """
    for kind, name in code_in(before).items():
        if kind not in given:
            raise OfclError(
                f"the earlier run used code of its own, {kind} = '{name}'; if you trust it, name "
                f"it again: --set {kind}={name}"
            )


def check_start(settings: Settings, dataset: Dataset, start: Start) -> None:
    """Raises an error if a run cannot go on from its start.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        start: The start of the run.
    """
    if settings.joint:
        raise OfclError("joint is a bound to compare with, from the first task on; a run that goes "
                        "on from another cannot be it")  # fmt: skip
    if chosen_method(settings).generative is not None:
        raise OfclError(f"{settings.method} has all classes from the start and cannot go on from "
                        f"'{start.name}'; use a memory method, for example bi")  # fmt: skip
    for name in OF_THE_MODEL:
        _check_same(name, settings, start, "has learned so; nothing else fits its model")
    _check_form(dataset, start)
    if start.clients:
        _check_memories(settings, start)


def check_clients(clients: int, start: Start) -> None:
    """Raises an error if a start has the memories of another number of clients than the run.

    Args:
        clients: The number of the run's clients.
        start: The start of the run.
    """
    if start.clients and clients != len(start.clients):
        raise OfclError(
            f"'{start.name}' has the memories of {len(start.clients)} clients, and the new run has "
            f"{clients}; their number must be the same"
        )


def _check_memories(settings: Settings, start: Start) -> None:
    """Raises an error if the clients' memories and optimisers cannot be used."""
    why = "has learned so; its memories and optimisers fit nothing else"
    for name in OF_THE_MEMORIES:
        _check_same(name, settings, start, why)
    for name in SWITCHES:
        if bool(getattr(settings, name)) != bool(start.settings.get(name)):
            _check_same(name, settings, start, why)
    if "fedprox" in (settings.aggregation, start.settings["aggregation"]):
        _check_same("aggregation", settings, start, why)
    check_clients(settings.clients, start)
    used = max(_places(client["learner"].get("memory")) for client in start.clients)
    if settings.memory < used:
        raise OfclError(f"memory = {settings.memory}, but the clients of '{start.name}' remember "
                        f"up to {used} samples each; a memory can only grow")  # fmt: skip


def _places(memory: dict[str, Any] | None) -> int:
    """Counts how many places a memory must have to hold these samples; 0 without a memory."""
    if memory is None or not len(memory["places"]):
        return 0
    return int(memory["places"].max()) + 1


def _check_same(name: str, settings: Settings, start: Start, why: str) -> None:
    """Raises an error if a setting differs from that of the start.

    Args:
        name: The name of the setting.
        settings: The run's settings, resolved.
        start: The start of the run.
        why: The reason why it must be the same, for the message.
    """
    given, before = getattr(settings, name), start.settings.get(name, getattr(settings, name))
    if given != before:
        raise OfclError(f"{name} = {given!r}, but '{start.name}' has {before!r} and {why}")


def _check_form(dataset: Dataset, start: Start) -> None:
    """Raises an error if samples have another kind or shape than those of the start."""
    form, before = dataset.sample_form, start.form
    kinds = (form.kind, before.kind)
    # Vectors of Python and of streams may be rows of a table, or texts, that somebody has prepared.
    known = dataset.form is not None or "image" in kinds
    if tuple(form.input_shape) != tuple(before.input_shape) or (known and form.kind != before.kind):
        raise OfclError(
            f"'{dataset.name}' has {form.words()}, but '{start.name}' has learned {before.words()}"
        )


def check_embedder(settings: Settings, start: Start) -> None:
    """Raises an error if texts would become vectors by another model than those of the start.

    It is called before any text is embedded, which may take long.

    Args:
        settings: The run's settings.
        start: The start of the run.
    """
    if isinstance(start.form, ImageForm):
        _check_image_embedder(settings, start.form.embedder, start.name)
        scaled = "standardised" if start.form.feature_mean else "unit"
        if start.form.embedder is not None and settings.features != scaled:
            raise OfclError(
                f"features = '{settings.features}', but '{start.name}' has learned from vectors "
                f"with features = '{scaled}'; give this, or leave it out"
            )
    if not isinstance(start.form, TextForm):
        return
    if start.form.as_tokens:
        return  # the weights of the model are compared, and the number of tokens
    found, before = find_embedder(settings.embedder), start.form.embedder
    same_model = found.model == before.model or bool(before.version)  # a folder may have moved
    if not same_model or found.version != before.version:
        version = f" of version {before.version}" if before.version else ""
        raise OfclError(
            f"embedder = '{settings.embedder}', but '{start.name}' has learned texts by "
            f"'{before.model}'{version}; give this one with --embedder"
        )


def _check_image_embedder(settings: Settings, before: ImageEmbedder | None, name: str) -> None:
    """Raises an error if images would become other vectors than those of the start.

    Args:
        settings: The run's settings.
        before: The embedder of the start; None: it has learned pixels.
        name: The name of the start.
    """
    if before is None and embeds_images(settings.embedder):
        raise OfclError(f"embedder = '{settings.embedder}', but '{name}' has learned pixels")
    if before is None:
        return
    given = settings.embedder
    difference = (
        find_image_embedder(given).differs(before)
        if embeds_images(given)
        else f"'{given}' embeds no images"
    )
    if difference:
        raise OfclError(
            f"embedder = '{given}', but '{name}' has learned images by '{before.name}': "
            f"{difference}; give this one with --embedder"
        )
