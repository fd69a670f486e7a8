"""The terms of a run: how samples look, the labels, the settings.

Before a run each party introduces itself: with its labels in words, and the form of its samples.
From the introductions the server makes the terms, which go out with every request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from ofcl.data.dataset import Dataset, Kind
from ofcl.data.sample_forms import ImageForm, TableForm
from ofcl.engines.rejection import LONGEST_LABEL, Rejected, check_label
from ofcl.errors import OfclError
from ofcl.federation.image_vectors import check_form, read_form, shared_form, vector_moments
from ofcl.federation.scaling import column_words, moments, pooled
from ofcl.pretrained.backbone_names import is_backbone, parse_backbone
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.version import __version__, agrees

MOST_LABELS = 10_000  # labels that a party may bring
MOST_NUMBERS = 10**7  # numbers in one sample
LONGEST_COLUMN = 4000  # characters of a column's name, kind and categories
LARGEST = 1e30  # of means and deviations

Way = Literal["dataset", "stream"]
"""Parties learn a dataset, task by task, or a stream as it comes."""


@dataclass(frozen=True)
class Samples:
    """The form of all parties' samples, as a model needs to know it.

    Args:
        way: Whether the samples come from datasets or from streams.
        kind: Whether the samples are images or vectors; tables and embedded texts are vectors.
        shape: The shape of one sample.
        mean: The mean of each channel of images, or of each number of a table's rows or of images'
            vectors, by which all parties scale; empty: nothing is scaled, or each party does it in
            its own way.
        std: The deviation of each channel or number, in the same way.
        embedder: The name of the embedder of texts or images, of images with a checksum of its
            weights; None: the samples are not embedded.
        columns: The columns of tables, each with its kind, in their order; empty: no table.
        count: The number of samples behind mean and deviation; 0: they stand for nothing.
        images: The images that become vectors, and by which network; None: there are none.
    """

    way: Way
    kind: Kind
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    embedder: str | None
    columns: tuple[str, ...] = ()
    count: int = 0
    images: ImageForm | None = None

    @classmethod
    def of(cls, dataset: Dataset, way: Way, embedder: str | None = None) -> Samples:
        """Describes the form of a dataset's samples.

        Args:
            dataset: The dataset; of a stream, a dataset without samples that has their form.
            way: Whether the samples come from a dataset or from a stream.
            embedder: The name of the embedder; None: the samples are not embedded.
        """
        form, count = dataset.form, len(dataset.x_train)
        mean, std = dataset.mean, dataset.std
        columns: tuple[str, ...] = ()
        if isinstance(form, TableForm):
            mean, std = moments(form, dataset.x_train)
            columns = column_words(form)
        images = None
        if isinstance(form, ImageForm) and form.embedder is not None:
            images = shared_form(form)
            mean, std = vector_moments(dataset.x_train) if count else ((), ())
        return cls(way, dataset.kind, dataset.shape, mean, std, embedder, columns, count, images)

    def differs(self, other: Samples) -> str | None:
        """Says in words how this form differs from another; None: the samples fit together.

        The scaling may differ: all parties take the one that is made of all of theirs.

        Args:
            other: The other form.
        """
        if self.columns and sorted(self.columns) == sorted(other.columns) != []:
            if self.columns != other.columns:
                names = ",".join(column.partition(": ")[0] for column in other.columns)
                return f"the same columns in another order; order them with --set columns={names}"
        elif self.columns != other.columns and self.columns and other.columns:
            own, theirs = (set(form.columns) for form in (self, other))
            return f"columns {sorted(own - theirs)[:3]}, not {sorted(theirs - own)[:3]}"
        for name in ("way", "kind", "shape", "embedder"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} {getattr(self, name)}, not {getattr(other, name)}"
        return None


@dataclass(frozen=True)
class Introduction:
    """A party's introduction of itself before a run.

    Args:
        party: The name of the party.
        labels: The labels of the party's dataset; none for a stream, whose labels come later.
        samples: The form of the party's samples.
        version: The party's version of this package; "": an earlier one, which tells none.
    """

    party: str
    labels: tuple[str, ...]
    samples: Samples
    version: str = ""


@dataclass(frozen=True)
class Terms:
    """All that a party must know to take part in a run.

    Args:
        settings: The run's settings, without those that each party decides for itself.
        clients: The number of parties.
        labels: The labels of all parties. The place of a label in this list is its class.
        base: How many of the labels were known when the run began; tasks are made of these.
        samples: The form of all parties' samples.
        aliases: Labels by other spellings of them that parties use.
        version: The server's version of this package; "": an earlier one, which tells none.
    """

    settings: Mapping[str, Any]
    clients: int
    labels: tuple[str, ...]
    base: int
    samples: Samples
    aliases: Mapping[str, str] = field(default_factory=dict)
    version: str = ""


def plain_spelling(label: str) -> str:
    """Gives a label without capitals and spaces, by which two spellings of it are found.

    Args:
        label: The label.
    """
    return "".join(label.casefold().split())


def pack(value: Introduction | Terms) -> State:
    """Converts an introduction or terms to plain values, to be sent.

    Args:
        value: The introduction, or the terms.
    """
    return asdict(value)


def unpack_introduction(state: State) -> Introduction:
    """Reads an introduction that `pack` has packed, and checks it: no party is trusted.

    Args:
        state: The plain values that a party has sent.

    Raises:
        Rejected: If a value is missing or cannot be right; the error says which.
    """
    try:
        samples = unpack_samples(state["samples"])
        introduction = Introduction(
            state["party"],
            tuple(state["labels"][: MOST_LABELS + 1]),
            samples,
            str(state.get("version", ""))[:40],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Rejected(f"its introduction cannot be read ({error})") from None
    if not isinstance(state["labels"], list) or not isinstance(introduction.party, str):
        raise Rejected("its introduction is of other types")
    if len(introduction.labels) > MOST_LABELS:
        raise Rejected(f"it brings {len(introduction.labels)} labels")
    if not agrees(introduction.version):
        raise Rejected(
            f"it runs ofcl {introduction.version!r} and this server {__version__}, whose messages "
            "may differ; install the same version at both"
        )
    for label in introduction.labels:
        check_label(label)
    _check_samples(samples)
    return introduction


def _check_samples(samples: Samples) -> None:
    """Rejects a form of samples that cannot be right."""
    shape, kind = samples.shape, samples.kind
    if samples.way not in get_args(Way) or kind not in get_args(Kind):
        raise Rejected(f"its samples are {kind!r} of a {samples.way!r}")
    if not all(type(side) is int and side > 0 for side in shape) or not shape:
        raise Rejected(f"its samples have the shape {shape}")
    if math.prod(shape) > MOST_NUMBERS or len(shape) != (3 if kind == "image" else 1):
        raise Rejected(f"its samples have the shape {shape}")
    scaled = shape[0] if kind == "image" or samples.mean else 0
    numbers = [*samples.mean, *samples.std]
    finite = all(isinstance(number, float) and abs(number) < LARGEST for number in numbers)
    positive = finite and all(number > 0 for number in samples.std)
    if len(samples.mean) != scaled or len(samples.std) != scaled or not positive:
        raise Rejected("its mean and deviation cannot be")
    if type(samples.count) is not int or not 0 <= samples.count < 10**12:
        raise Rejected(f"its number of samples is {samples.count!r}")
    embedder = samples.embedder
    if embedder is not None and (not isinstance(embedder, str) or len(embedder) > LONGEST_LABEL):
        raise Rejected("its embedder cannot be")
    if samples.images is not None:
        check_form(samples.images, embedder, shape)
    if len(samples.columns) > shape[0] or (kind == "image" and samples.columns):
        raise Rejected(f"it has {len(samples.columns)} columns")
    for column in samples.columns:
        if not isinstance(column, str) or len(column) > LONGEST_COLUMN or not column.isprintable():
            raise Rejected("one of its columns cannot be")


def unpack_terms(state: State) -> Terms:
    """Reads terms that `pack` has packed.

    Args:
        state: The plain values that the server has sent.
    """
    return Terms(
        settings=dict(state["settings"]),
        clients=int(state["clients"]),
        labels=tuple(state["labels"]),
        base=int(state["base"]),
        samples=unpack_samples(state["samples"]),
        aliases=dict(state.get("aliases", {})),  # earlier versions had none
        version=str(state.get("version", "")),  # earlier versions told none
    )


def unpack_samples(state: State) -> Samples:
    """Reads the form of samples from plain values.

    Args:
        state: The value of each field of `Samples`, by its name.
    """
    lists = {name: tuple(state[name]) for name in ("shape", "mean", "std")}
    return Samples(
        state["way"],
        state["kind"],
        **lists,
        embedder=state["embedder"],
        columns=tuple(state.get("columns", ())),  # earlier versions had none
        count=state.get("count", 0),
        images=read_form(state.get("images")),
    )


def travelling_settings(settings: Settings) -> State:
    """Chooses the settings that are sent to parties.

    Paths, and all else that each party decides for itself (`AT_PARTY`), are left out.

    Args:
        settings: The settings of the run.
    """
    values = settings.model_dump(mode="json")
    if is_backbone(settings.model):  # each party knows where its weights are
        values["model"] = parse_backbone(settings.model).name
    return {name: value for name, value in values.items() if name not in AT_PARTY}


class Agreed(NamedTuple):
    """The labels and the form of samples on which the parties agree.

    Args:
        labels: The labels of all parties, the first party's first.
        samples: The form of samples, with the scaling that is made of all parties' statistics.
        odd: Names of parties whose samples have another form; they are left out.
    """

    labels: tuple[str, ...]
    samples: Samples
    odd: tuple[str, ...]


def agree(
    introductions: Mapping[str, Introduction],
    fewest: int = 1,
    tell: Callable[[str], None] = lambda line: None,
    aliases: Mapping[str, str] | None = None,
) -> Agreed:
    """Makes one list of labels, and one form of samples, from the parties' introductions.

    The form is the one that most parties have. Others are left out.

    Args:
        introductions: The introductions by the names of the parties.
        fewest: How many parties the run needs.
        tell: Is given a line for each party that is left out.
        aliases: Labels by other spellings of them.

    Raises:
        OfclError: If too few parties have samples of one form; the error names the others.
    """
    alike: list[list[str]] = []  # names of parties with samples of one form
    for name, said in introductions.items():
        for group in alike:
            if said.samples.differs(introductions[group[0]].samples) is None:
                group.append(name)
                break
        else:
            alike.append([name])
    most = max(alike, key=len)
    form = introductions[most[0]].samples
    odd = tuple(name for name in introductions if name not in most)
    if odd:
        words = "; ".join(
            f"{name} has other samples than {', '.join(most)}: "
            f"{introductions[name].samples.differs(form)}"
            for name in odd
        )
        if len(most) < max(fewest, 2) or sum(len(group) == len(most) for group in alike) > 1:
            raise OfclError(words)
        tell(f"{words}; the run is without")
    labels: dict[str, None] = {}
    for name in most:
        spelled = introductions[name].labels
        labels |= dict.fromkeys((aliases or {}).get(label, label) for label in spelled)
    told = [introductions[name].samples for name in most if introductions[name].samples.count]
    if told:
        mean, std = pooled([(each.count, each.mean, each.std) for each in told])
        form = replace(form, mean=mean, std=std, count=sum(each.count for each in told))
    return Agreed(tuple(labels), form, odd)
