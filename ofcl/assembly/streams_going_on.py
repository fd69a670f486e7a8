"""Streams of a run that goes on: what is known before their first sample, and earlier tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy

import numpy as np

from ofcl.assembly.start import Start
from ofcl.data.live.form import Pattern
from ofcl.data.live.live_agreement import Agreement
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm, TextForm, VectorForm
from ofcl.data.standardisation import Standardisation
from ofcl.events import Event
from ofcl.state import State


def first_known(known: State | None, start: Start | None) -> tuple[Pattern, Vocabulary]:
    """Returns the kind and shape of samples, and the labels, that are known before a first sample.

    Args:
        known: What the checkpoint of a resumed run says of its streams; None: the run is new.
        start: What the run goes on from; None: it begins anew.
    """
    if known is not None:
        pattern = Pattern(known["kind"], tuple(known["shape"]))
        return pattern, Vocabulary(tuple(known["labels"]))
    if start is None or not start.pattern:
        return Pattern(), Vocabulary(start.labels if start is not None else ())
    pattern = Pattern(start.pattern["kind"], tuple(start.pattern["shape"]))
    return pattern, Vocabulary(start.labels)


def tests_of_start(
    start: Start, labels: Sequence[str], vocabulary: Vocabulary
) -> tuple[list[Event], list[str]]:
    """Finds the earlier run's tests that can be compared with those of the new run.

    These are the tests that had, for every class, as many samples as the new run's test has.

    Args:
        start: What the run goes on from.
        labels: The label of each sample that the new run is tested on.
        vocabulary: The labels with a place; the place of a label is its class.

    Returns:
        The tests, which count in the new run too; and a line for the user if there are others.
    """
    numbers = Counter(vocabulary.place(label) for label in labels if label in vocabulary)
    events: list[Event] = []
    for event in start.evaluated:
        tasks = start.clients[event.client]["seen"][: event.task + 1]
        now = {c: numbers[c] for task in tasks for c in task if numbers[c]}
        if now == {c: samples for task in event.test for c, _, samples in task}:
            events.append(event)
    tested_before = any(task for event in start.evaluated for task in event.test)
    if not tested_before or len(events) == len(start.evaluated):
        return events, []
    return events, ["what was learned before was tested on other samples: F leaves these tests out"]


def stream_state(start: Start, number: int, names: tuple[str, ...]) -> State:
    """Returns the state in which a client's live stream begins: the number of its first task.

    It has the columns and the standardisation of the client's earlier stream. A folder that was
    watched before goes on behind the files that were learned.

    Args:
        start: The start of the run.
        number: The number of the client.
        names: The names of the new run's streams.
    """
    state: State = {"taken": {}, "task": None, "first_task": start.first_task, "pending": [],
                    "feed": _columns(start.form), "form": _standardisation(start.form)}  # fmt: skip
    if not start.clients or not start.pattern:
        return state
    client = start.clients[number]
    earlier, before = deepcopy(client["earlier_stream"]), start.settings["streams"]
    state |= {"first_task": client["task"], "form": earlier["form"]}
    if names[number].startswith("watch:") and before[number] == names[number]:
        return state | {"taken": earlier["taken"], "feed": earlier["feed"]}
    columns = ("label", "kind", "columns")
    return state | {"feed": {k: v for k, v in earlier["feed"].items() if k in columns}}


def _columns(form: SampleForm) -> State:
    """Returns the meaning of columns, as a feed knows it; {} if the form names none."""
    match form:
        case TableForm(columns=columns, label=str(label)):
            return {"label": label, "kind": "mixed", "columns": columns}
        case TextForm(column=str(column), label=str(label)):
            return {"label": label, "kind": "text", "columns": (column,)}
        case VectorForm(column=str(column), label=str(label)):
            return {"label": label, "kind": "list", "columns": (column,)}
        case _:
            return {}


def _standardisation(form: SampleForm) -> State:
    """Returns the standardisation of a form, as a stream's form has it in its state."""
    if isinstance(form, ImageForm) and form.feature_mean:
        deviation = np.array(form.feature_scale) / math.sqrt(len(form.feature_scale))
        # A stream divides by √d itself.
        return Agreement(Standardisation(np.array(form.feature_mean), deviation)).state()
    if not isinstance(form, TableForm | VectorForm) or not form.mean:
        return {"mean": None, "scale": None}
    scale = Standardisation(np.array(form.mean), np.array(form.scale))
    if isinstance(form, VectorForm):
        return Agreement(scale).state()
    return Agreement(scale, form.columns, form.codes).state()
