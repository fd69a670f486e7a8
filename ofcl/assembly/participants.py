"""Who takes part in a run: clients with shares of a dataset, or with streams of their own."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from ofcl.assembly import build
from ofcl.assembly.checks import check, check_model
from ofcl.client import Client
from ofcl.data.dataset import Dataset
from ofcl.data.files.labels import label_name
from ofcl.data.live.feeds import STDIN, WATCH, held_out_samples, open_feed
from ofcl.data.live.form import Pattern
from ofcl.data.live.iterator_feed import Items, IteratorFeed, samples_of_item
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.sample import Feed, Sample
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.loading import load_dataset
from ofcl.data.scenario import Share
from ofcl.engines.local import LOOK_AGAIN
from ofcl.errors import OfclError
from ofcl.evaluation.held_out import SeenHeldOut
from ofcl.methods import METHODS
from ofcl.server import Server
from ofcl.settings.rules import check_combination
from ofcl.settings.schema import Settings
from ofcl.state import State, flatten, unflatten

ITERATOR = "iterator"  # what the settings say of a stream that only Python can open again


@dataclass
class Parties:
    """The clients and the server of a run, and what is known of it before it starts."""

    settings: Settings
    clients: list[Client]
    server: Server
    vocabulary: Vocabulary
    warnings: list[str]
    batches: int | None  # None: nobody knows how many will come
    pattern: Pattern = field(default_factory=Pattern)
    tested: bool = False  # whether streams have samples to test on
    form: State = field(default_factory=dict)  # kind of the samples; how images were normalised
    fingerprint: str = ""  # of a dataset
    agreed: State = field(default_factory=dict)  # with parties elsewhere, for a checkpoint

    @property
    def labels(self) -> tuple[str, ...]:
        """The vocabulary."""
        return self.vocabulary.labels

    @property
    def first_labels(self) -> tuple[str, ...]:
        """The vocabulary as it was when the run began."""
        return self.labels[: self.agreed.get("base")]

    def state(self) -> State:
        """What streams have shown so far, for a checkpoint."""
        shape = list(self.pattern.shape)
        return {
            "labels": list(self.labels),
            "kind": self.pattern.kind,
            "shape": shape,
            "tested": self.tested,
            **self.agreed,
        }


def dataset_parties(
    settings: Settings, dataset: Dataset | None, elsewhere: bool = False
) -> Parties:
    """Clients that learn their shares of a dataset, by default the one that the settings name.

    Those that are `elsewhere` are made there.
    """
    dataset = dataset or load_dataset(settings.dataset, build.build_reading(settings))
    settings = build.resolve(settings, dataset)
    device = build.find_device(settings.device)
    shares = build.build_shares(settings, dataset)
    warnings = [*dataset.notes, *check(settings, dataset, shares)]
    fingerprint = dataset.fingerprint()
    dataset = dataset.to(device)
    numbers = [] if elsewhere else range(len(shares))
    return Parties(
        settings=settings,
        clients=list(map(maker(settings, dataset, shares), numbers)),
        server=build.build_server(settings, dataset),
        vocabulary=Vocabulary(dataset.labels),
        warnings=warnings,
        batches=sum(sum(build.task_lengths(settings, share)) for share in shares),
        form=_form(dataset),
        fingerprint=fingerprint,
    )


def maker(settings: Settings, dataset: Dataset, shares: Sequence[Share]) -> Callable[[int], Client]:
    """The number of a client → it, with its share of a dataset."""
    return lambda k: build.build_client(settings, dataset, k, shares[k])


@dataclass(frozen=True)
class ClientFactory:
    """Makes clients in another process: it travels, so it names the data and does not hold them."""

    settings: Settings  # as a run has found them
    saved: Path | None  # a dataset that was handed in; None: the settings name it

    def __call__(self) -> Callable[[int], Client]:
        """Reads the data; gives what makes a client of its number."""
        settings = self.settings
        if self.saved is not None:
            dataset = load_saved(self.saved)
        else:
            dataset = load_dataset(settings.dataset, build.build_reading(settings), lambda _: None)
        shares = build.build_shares(settings, dataset)
        return maker(settings, dataset.to(build.find_device(settings.device)), shares)


def save_dataset(dataset: Dataset, folder: Path) -> Path:
    """Keeps a dataset that was handed in, for those who make clients elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors, tree = flatten({**vars(dataset), "labels": list(dataset.labels)})
    save_file(tensors, folder / "dataset.safetensors")
    (folder / "dataset.json").write_text(json.dumps(tree))
    return folder


def load_saved(folder: Path) -> Dataset:
    """The inverse of `save_dataset`."""
    tree = json.loads((folder / "dataset.json").read_text())
    values = unflatten(load_file(folder / "dataset.safetensors"), tree)
    lists = {name: tuple(v) for name, v in values.items() if isinstance(v, list)}
    return Dataset(**{**values, **lists})


def live_parties(
    settings: Settings,
    streams: Sequence[Feed | Items],
    test: Iterable[Any],
    pause: Callable[[float], None],
    known: State | None = None,
) -> Parties:
    """Clients that learn from streams of their own; waits for the first sample of any.

    `known` is what a run that is resumed has seen of them.
    """
    build.check_names(settings)
    if METHODS[settings.method].generative is not None:
        raise OfclError(f"{settings.method} needs tasks that end for all clients; streams do not")
    feeds, names = open_feeds(settings, streams)
    check_combination(settings.model_copy(update={"streams": names}))
    if settings.test is not None and not Path(settings.test).exists():
        raise OfclError(f"no file or folder '{settings.test}' to test on")
    found: dict[str, Any] = {"streams": names, "clients": len(feeds)}
    if settings.test is not None:
        found["test"] = str(Path(settings.test).resolve())
    settings = settings.model_copy(update=found)
    pattern, vocabulary = Pattern(), Vocabulary()
    if known is not None:
        pattern = Pattern(known["kind"], tuple(known["shape"]))
        vocabulary = Vocabulary(tuple(known["labels"]))
    live = [
        build.build_stream(settings, k, feed, pattern, vocabulary, standardise=not streams)
        for k, feed in enumerate(feeds)
    ]
    _wait_for_a_sample(live, pattern, pause)
    # Heads start without the classes that a resumed run knows: its checkpoint lets them grow.
    dataset = live[0].form.empty("stream", ())
    settings = build.resolve(settings, dataset)
    check_model(settings, dataset)
    dataset = dataset.to(build.find_device(settings.device))
    test = list(test)
    held = functools.cache(lambda: held_samples(settings, test, live))
    if known is None:
        held()  # what is wrong with them is said now
    elif known["tested"] and not (test or settings.test):
        raise OfclError("this run was tested on samples of its own: resume it with test=…")
    warnings = []
    if len(feeds) < settings.min_clients:
        warnings.append(
            f"no round will happen: {settings.min_clients} clients are needed (min_clients)"
        )
    if pattern.kind == "vector" and not streams:
        warnings.append(f"learning begins when {settings.window} rows have come: numbers are "
                        "standardised by them (--set window=N)")  # fmt: skip
    return Parties(
        settings=settings,
        clients=[
            build.build_live_client(settings, dataset, k, stream, tested(held, stream, vocabulary))
            for k, stream in enumerate(live)
        ],
        server=build.build_server(settings, dataset),
        vocabulary=vocabulary,
        warnings=warnings,
        batches=None,
        pattern=pattern,
        tested=bool(test or settings.test),
        form=_form(dataset),
    )


def _form(dataset: Dataset) -> State:
    """What those need who look at samples as a model takes them."""
    return {"kind": dataset.kind, "mean": list(dataset.mean), "std": list(dataset.std)}


def open_feeds(
    settings: Settings, streams: Sequence[Feed | Items]
) -> tuple[list[Feed], tuple[str, ...]]:
    """Where the clients' samples come from, and the names by which these can be opened again."""
    if streams:
        if not isinstance(streams, list | tuple):
            raise OfclError(f"streams is a {type(streams).__name__}; give a list, one a client")
        feeds = [s if isinstance(s, Feed) else IteratorFeed(s) for s in streams]
        return feeds, (ITERATOR,) * len(feeds)
    if set(settings.streams) == {ITERATOR}:
        raise OfclError("this run learned from iterators: resume it from Python, with streams=…")
    if settings.streams.count(STDIN) > 1:
        raise OfclError("only one stream can be standard input")
    names = tuple(
        f"{WATCH}{Path(name.removeprefix(WATCH)).resolve()}" if name.startswith(WATCH) else name
        for name in settings.streams
    )
    reading = build.build_reading(settings)
    return [open_feed(name, reading, settings.task, settings.idle) for name in names], names


def _wait_for_a_sample(
    live: Sequence[LiveStream], pattern: Pattern, pause: Callable[[float], None]
) -> None:
    """Waits until any stream has shown what samples look like."""
    while pattern.kind is None:
        ready = [stream.ready() for stream in live]
        if pattern.kind is None and all(ready):
            raise OfclError("the streams have ended before they brought a single sample")
        if pattern.kind is None:
            pause(LOOK_AGAIN)


def held_samples(
    settings: Settings, test: Iterable[Any], live: Sequence[LiveStream]
) -> list[Sample]:
    """The samples to test on, in the form of the streams' own."""
    if settings.test is not None:
        known = next((s.feed.known for s in live if "columns" in s.feed.known), {})
        held = held_out_samples(
            Path(settings.test), build.build_reading(settings), settings.task, dict(known)
        )
    else:
        held = [sample for item in test for sample in samples_of_item(item, 0)]
    try:
        for bad in held:
            if bad.problem:
                raise ValueError(bad.problem)
        return [
            replace(sample, x=live[0].form.checked(sample.x), label=label_name(sample.label))
            for sample in held
        ]
    except ValueError as error:
        raise OfclError(f"a sample to test on cannot be used: {error}") from None


def tested(
    held: Callable[[], Sequence[Sample]], stream: LiveStream, vocabulary: Vocabulary
) -> SeenHeldOut:
    """The samples to test on, read and made ready as the stream's own are, when that is known.

    Of a run that is resumed it is not before its checkpoint is loaded.
    """
    made: list[Tensor] = []

    def samples() -> Tensor:
        if not made:
            made.append(stream.form.tensor([sample.x for sample in held()]))
        return made[0]

    def places() -> dict[str, int]:
        return {label: place for place, label in enumerate(vocabulary.labels)}

    return SeenHeldOut(samples, lambda: [sample.label for sample in held()], places)
