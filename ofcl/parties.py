"""Who takes part in a run: clients with shares of a dataset, or with streams of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ofcl import build
from ofcl.aggregation import Server
from ofcl.client import Client
from ofcl.config import Settings
from ofcl.data import load_dataset
from ofcl.data.dataset import Dataset
from ofcl.data.feeds import Items, IteratorFeed, open_feed, samples_of
from ofcl.data.form import Pattern
from ofcl.data.labels import label_name
from ofcl.data.live import Feed, LiveStream, Sample, Vocabulary
from ofcl.engines.local import LOOK_AGAIN
from ofcl.errors import OfclError
from ofcl.evaluation import SeenHeldOut
from ofcl.state import State


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

    @property
    def labels(self) -> tuple[str, ...]:
        """The vocabulary."""
        return self.vocabulary.labels

    def state(self) -> State:
        """What streams have shown so far, for a checkpoint."""
        shape = list(self.pattern.shape)
        return {"labels": list(self.labels), "kind": self.pattern.kind, "shape": shape}


def dataset_parties(settings: Settings, dataset: Dataset | None) -> Parties:
    """Clients that learn their shares of a dataset, by default the one that the settings name."""
    dataset = dataset or load_dataset(settings.dataset, build.build_reading(settings))
    settings = build.resolve(settings, dataset)
    device = build.find_device(settings.device)
    shares = build.build_shares(settings, dataset)
    warnings = [*dataset.notes, *build.check(settings, dataset, shares)]
    dataset = dataset.to(device)
    return Parties(
        settings=settings,
        clients=[build.build_client(settings, dataset, k, s) for k, s in enumerate(shares)],
        server=build.build_server(settings, dataset),
        vocabulary=Vocabulary(dataset.labels),
        warnings=warnings,
        batches=sum(sum(build.task_lengths(settings, share)) for share in shares),
    )


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
    reading = build.build_reading(settings)
    if streams:
        feeds: list[Feed] = [s if isinstance(s, Feed) else IteratorFeed(s) for s in streams]
        names = ("iterator",) * len(feeds)
    elif set(settings.streams) == {"iterator"}:
        raise OfclError("this run learned from iterators: resume it from Python, with streams=…")
    else:
        names = settings.streams
        feeds = [open_feed(name, reading, settings.task, settings.idle) for name in names]
    if len([name for name in names if name == "-"]) > 1:
        raise OfclError("only one stream can be standard input")
    settings = settings.model_copy(update={"streams": names, "clients": len(feeds)})
    pattern, vocabulary = Pattern(), Vocabulary()
    if known is not None:
        pattern = Pattern(known["kind"], tuple(known["shape"]))
        vocabulary = Vocabulary(tuple(known["labels"]))
    live = [
        build.build_stream(settings, k, feed, pattern, vocabulary, standardise=not streams)
        for k, feed in enumerate(feeds)
    ]
    while pattern.kind is None:
        ready = [stream.ready() for stream in live]
        if all(ready):
            break
        pause(LOOK_AGAIN)
    if pattern.kind is None:
        raise OfclError("the streams have ended before they brought a single sample")
    dataset = live[0].form.empty("stream", vocabulary.labels)
    settings = build.resolve(settings, dataset)
    build.check_model(settings, dataset)
    dataset = dataset.to(build.find_device(settings.device))
    if settings.test is not None:
        held = samples_of(Path(settings.test), reading)
    else:
        held = [Sample(x, y) for x, y in test]
    clients = [
        build.build_live_client(settings, dataset, k, stream, _held_out(held, stream, vocabulary))
        for k, stream in enumerate(live)
    ]
    warnings = []
    if len(clients) < settings.min_clients:
        warnings.append(f"no round will happen: {len(clients)} client is not a federation")
    return Parties(
        settings=settings,
        clients=clients,
        server=build.build_server(settings, dataset),
        vocabulary=vocabulary,
        warnings=warnings,
        batches=None,
        pattern=pattern,
    )


def _held_out(held: Sequence[Sample], stream: LiveStream, vocabulary: Vocabulary) -> SeenHeldOut:
    """The test samples, made ready as the stream's own are."""
    made: list[Tensor] = []

    def samples() -> Tensor:
        if not made:
            made.append(stream.form.tensor([stream.form.checked(sample.x) for sample in held]))
        return torch.cat(made)

    def places() -> dict[str, int]:
        return {label: place for place, label in enumerate(vocabulary.labels)}

    return SeenHeldOut(samples, [label_name(sample.label) for sample in held], places)
