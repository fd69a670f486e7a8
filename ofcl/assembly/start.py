"""A start: all that a run takes over from an earlier run, or from a model that was learned before.

A run that goes on has the model and the labels of the earlier one. From a run directory it has the
clients' memories, optimisers and random generators too. The new run keeps its own copy of all this,
in its first checkpoint and in `start.json`, and never needs the earlier directory again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ofcl.data.sample_forms import ImageForm, SampleForm
from ofcl.errors import OfclError
from ofcl.events import Evaluated
from ofcl.state import State, Tensors

_FORMS: TypeAdapter[SampleForm] = TypeAdapter(SampleForm)


@dataclass(frozen=True)
class Part:
    """An earlier run: one of the chain of runs that a new run goes on from.

    Args:
        settings: The settings of that run, by name.
        fingerprint: A checksum of its dataset; empty for streams.
        first: The number of its first task.
        tasks: The number of its tasks that were begun.
        went_on: Whether it went on from an earlier run, or from a model.
        tested: Whether the new run tests these tasks too.
    """

    settings: dict[str, Any]
    fingerprint: str
    first: int
    tasks: int
    went_on: bool = False
    tested: bool = False


@dataclass(frozen=True)
class Start:
    """All that a run takes over from an earlier run, or from a model that was learned before.

    Args:
        name: The path of the run directory or the model, as it was given.
        digest: A checksum of the model.
        settings: Settings of the earlier run, by name; of a model alone, those that came with it.
        labels: The labels that are known; the place of a label is its class.
        form: The form of the samples.
        parts: The earlier runs that learned all this, in order; empty for a model alone.
        model: The named tensors of the global model. Empty in a run that is resumed, as its
            checkpoint has the model.
        server: The state of the server; None: the model alone is taken over.
        clients: The state of each client; empty: the model alone is taken over.
        pattern: Of streams, the kind and shape of a sample as it comes; empty for datasets.
        evaluated: The tests of the earlier run.
    """

    name: str
    digest: str
    settings: dict[str, Any]
    labels: tuple[str, ...]
    form: SampleForm
    parts: tuple[Part, ...] = ()
    model: Tensors = field(default_factory=dict)
    server: State | None = None
    clients: tuple[State, ...] = ()
    pattern: State = field(default_factory=dict)
    evaluated: tuple[Evaluated, ...] = ()

    @property
    def first_task(self) -> int:
        """The number of the first task that is new."""
        return self.parts[-1].first + self.parts[-1].tasks if self.parts else 0

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Mean and standard deviation of each channel of images; None: samples are no images."""
        return (self.form.mean, self.form.std) if isinstance(self.form, ImageForm) else None

    def with_tested(self, tested: Sequence[bool]) -> Start:
        """Returns the same start with each earlier run marked as tested in the new run, or not.

        Args:
            tested: For each earlier run, whether it is tested.
        """
        pairs = zip(self.parts, tested, strict=True)
        return replace(self, parts=tuple(replace(part, tested=flag) for part, flag in pairs))

    def to_json(self) -> State:
        """Returns what a run needs when it is resumed, as plain values; it has no tensors."""
        return {
            "name": self.name,
            "digest": self.digest,
            "first_task": self.first_task,
            "settings": self.settings,
            "labels": list(self.labels),
            "form": _FORMS.dump_python(self.form, mode="json"),
            "parts": [asdict(part) for part in self.parts],
            "pattern": self.pattern,
        }


def start_from_json(values: State) -> Start:
    """Makes the start of a run that is resumed; its checkpoint has the model and the memories.

    Args:
        values: The values that `Start.to_json` returned.

    Raises:
        OfclError: If the values are not those of a start.
    """
    try:
        plain = {name: values[name] for name in ("name", "digest", "settings", "pattern")}
        parts = tuple(Part(**part) for part in values["parts"])
        form = _FORMS.validate_python(values["form"])
        return Start(**plain, labels=tuple(values["labels"]), form=form, parts=parts)
    except (KeyError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise OfclError(f"the file start.json of the run is damaged ({first})") from None


def model_digest(model: Tensors) -> str:
    """Computes a checksum of a model: the same for the same names and numbers, wherever they are.

    Args:
        model: The named tensors of the model.
    """
    digest = hashlib.sha256()
    for name in sorted(model):
        tensor = model[name].detach().cpu().contiguous()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
