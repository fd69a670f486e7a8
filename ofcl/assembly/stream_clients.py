"""Clients that learn from streams of their own: iterators, watched folders, standard input."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ofcl.assembly.checks import check_run, check_settings
from ofcl.assembly.dealing import build_reading
from ofcl.assembly.describe_backbone import describe_backbone
from ofcl.assembly.fitting import describe_fit
from ofcl.assembly.inheritance import check_clients, check_embedder, check_start
from ofcl.assembly.make_client import build_live_client, build_live_stream
from ofcl.assembly.make_server import build_server
from ofcl.assembly.participants import Participants, form_of
from ofcl.assembly.resolve import find_device, resolve, resolve_alone
from ofcl.assembly.start import Start
from ofcl.assembly.stream_agreement import agree
from ofcl.assembly.stream_remarks import describe_end
from ofcl.assembly.streams_going_on import first_known, stream_state, tests_of_start
from ofcl.assembly.take_over import take_over
from ofcl.assembly.unused_settings import find_unused
from ofcl.data.feature_scaling import to_length_1
from ofcl.data.files.embedders import find_embedder
from ofcl.data.files.image_embedders import embeds_images, find_image_embedder
from ofcl.data.files.labels import label_name
from ofcl.data.live.feeds import STDIN, WATCH, held_out_samples, open_feed
from ofcl.data.live.form import MEAN, STD, Pattern
from ofcl.data.live.iterator_feed import Items, IteratorFeed, samples_of_item
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.sample import Feed, Sample
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.sample_forms import (
    ImageForm,
    SampleForm,
    TableForm,
    TextForm,
    VectorForm,
    embedded_form,
)
from ofcl.data.standardisation import Standardisation
from ofcl.engines.local import LOOK_AGAIN
from ofcl.errors import OfclError
from ofcl.evaluation.held_out import SeenHeldOut
from ofcl.events import Event
from ofcl.settings.rules import check_combination
from ofcl.settings.schema import Settings
from ofcl.state import State

TestSamples = Iterable[Any] | str | Path
"""Samples to test on: (x, label) each, or a file or folder of them."""

ITERATOR = "iterator"  # what the settings say of a stream that only Python can open again


def stream_participants(
    settings: Settings,
    streams: Sequence[Feed | Items],
    test: TestSamples,
    pause: Callable[[float], None],
    known: State | None = None,
    start: Start | None = None,
    tell: Callable[[str], None] = print,
) -> Participants:
    """Prepares the clients and the server of a run over streams; waits for the first samples.

    Args:
        settings: The run's settings; they name the streams unless `streams` are given.
        streams: One stream for each client, handed over from Python; empty: the settings name them.
        test: Samples to test on, or a file or folder of them; empty: `test` of the settings.
        pause: Waits for the given number of seconds; it may raise to end the run.
        known: What the checkpoint of a resumed run says of its streams (`Participants.state`);
            None: the run is new.
        start: What the run goes on from; None: it begins anew.
        tell: Is given each line for the user.
    """
    if isinstance(test, str | Path):
        settings, test = settings.model_copy(update={"test": str(test)}), ()
    # Before anything is opened: the method must know that the run has streams.
    check_settings(settings.model_copy(update={"streams": settings.streams or (ITERATOR,)}))
    feeds, names = open_feeds(settings, streams)
    settings = settings.model_copy(update={"streams": names})
    check_combination(settings)
    settings = _settled(settings)
    pattern, vocabulary = first_known(known, start)
    live = [
        build_live_stream(
            settings,
            k,
            feed,
            pattern,
            vocabulary,
            standardise=not streams,
            normalisation=start.normalisation if start is not None else None,
        )
        for k, feed in enumerate(feeds)
    ]
    if start is not None and known is None:
        check_embedder(settings, start)
        check_clients(len(live), start)
        for k, stream in enumerate(live):
            stream.load_state(stream_state(start, k, names))
    _wait_for_a_sample(live, pattern, pause)
    if known is None:  # a checkpoint has what was agreed on
        agree(
            live,
            pause,
            tell,
            window=settings.window,
            patience=settings.patience,
        )
    # Heads start without the classes that a resumed run knows: its checkpoint lets them grow.
    dataset = live[0].form.empty_dataset("stream", ())
    asked, settings = settings, resolve_alone(resolve(settings, dataset))
    check_run(settings, dataset)
    if start is not None:
        check_start(settings, dataset, start)
    dataset = dataset.to(find_device(settings.device))
    test = list(test)
    samples = functools.cache(lambda: read_test_samples(settings, test, live))
    if known is None:
        samples()  # what is wrong with them is said now
    elif known["tested"] and not (test or settings.test):
        raise OfclError("this run was tested on samples of its own: resume it with test=…")
    clients = [
        build_live_client(settings, dataset, k, stream, tests_of(samples, stream, vocabulary))
        for k, stream in enumerate(live)
    ]
    server = build_server(settings, dataset)
    events: list[Event] = []
    warnings = _oddities(settings)
    if known is None and start is None:  # many settings of a run that goes on are inherited
        warnings += find_unused(asked, settings, dataset.kind)
    if start is not None:
        take_over(start, clients, server, settings.seed)
    if start is not None and known is None:
        events, of_tests = tests_of_start(start, [sample.label for sample in samples()], vocabulary)
        warnings += of_tests
    return Participants(
        settings=settings,
        clients=clients,
        server=server,
        fitted=describe_fit(asked, settings),
        backbone=describe_backbone(settings, server),
        vocabulary=vocabulary,
        warnings=warnings,
        batches=None,
        pattern=pattern,
        tested=bool(test or settings.test),
        form=form_of(dataset),
        sample_form=lambda: form_of_streams(settings, live, pattern, start),
        start=start,
        events=events,
        remarks=lambda: describe_end(
            settings, clients, vocabulary.labels, (sample.label for sample in samples())
        ),
    )


def form_of_streams(
    settings: Settings,
    live: Sequence[LiveStream],
    pattern: Pattern,
    start: Start | None = None,
) -> SampleForm:
    """Describes how samples of streams are read, so that others can be read in the same way.

    All clients have one scale. In runs of earlier versions each had its own; the form then has
    these pooled.

    Args:
        settings: The run's settings.
        live: The stream of each client.
        pattern: Kind and shape of all samples.
        start: What the run goes on from; None: it begins anew.
    """
    # Of streams that go on from streams, each client standardises as it did before.
    if start is not None and (not start.pattern or pattern.kind == "image"):
        return start.form
    known: State = next((s.feed.known for s in live if "columns" in s.feed.known), {})
    columns, label = tuple(known.get("columns", ())), known.get("label")
    fitted = [part for s in live if (part := s.form.standardisation) is not None]
    alike = all(part.equals(fitted[0]) for part in fitted)
    pooled = None
    if fitted:
        pooled = fitted[0] if alike else Standardisation.pooled(fitted)
    if pattern.kind == "image":
        resized = settings.image_size is not None
        if embeds_images(settings.embedder):
            return embedded_form(
                find_image_embedder(settings.embedder),
                pattern.shape,
                resized=resized,
                scaling=to_length_1(pooled).plain() if pooled is not None else ((), ()),
            )
        channels, height, width = pattern.shape
        mean, std = (MEAN,) * channels, (STD,) * channels
        return ImageForm((channels, height, width), mean, std, resized, None)
    if pattern.kind == "text":
        length = live[0].form.empty_dataset("stream", ()).shape[0]
        column = columns[0] if columns else None
        if (tokens := live[0].form.token_samples) is not None:
            return tokens.form(column, label)
        return TextForm(find_embedder(settings.embedder), length, column, label)
    agreed = next((s.form.agreement for s in live if s.form.agreement is not None), None)
    mean, scale = pooled.plain() if pooled is not None else ((), ())
    if agreed is not None and (agreed.columns or known.get("kind") == "numbers"):
        return TableForm(agreed.columns or columns, mean, scale, label, agreed.codes)
    return VectorForm(pattern.shape[0], columns[0] if columns else None, label, mean, scale)


def _settled(settings: Settings) -> Settings:
    """Fills in the number of clients and `on_bad`, and makes the path of `test` absolute."""
    found: dict[str, Any] = {"clients": len(settings.streams)}
    if settings.on_bad == "auto":
        folders = sum(name.startswith(WATCH) for name in settings.streams)
        # A bad file in one folder is no reason to stop the others.
        found["on_bad"] = "wait" if folders and len(settings.streams) > 1 else "stop"
    if settings.test is not None:
        if not Path(settings.test).exists():
            raise OfclError(f"no file or folder '{settings.test}' to test on")
        found["test"] = str(Path(settings.test).resolve())
    return settings.model_copy(update=found)


def _oddities(settings: Settings) -> list[str]:
    """Lists warnings, in words, about what a user may not expect of a run over streams."""
    if settings.clients >= settings.min_clients:
        return []
    return [f"no round will happen: {settings.min_clients} clients are needed (min_clients)"]


def open_feeds(
    settings: Settings, streams: Sequence[Feed | Items] = ()
) -> tuple[list[Feed], tuple[str, ...]]:
    """Opens a feed of samples for each client.

    Args:
        settings: The run's settings; they name the feeds unless `streams` are given.
        streams: One stream for each client, handed over from Python.

    Returns:
        The feeds, and the names by which a resumed run opens them again.
    """
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
    reading = build_reading(settings)
    return [open_feed(name, reading, settings.task, settings.idle) for name in names], names


def _wait_for_a_sample(
    live: Sequence[LiveStream], pattern: Pattern, pause: Callable[[float], None]
) -> None:
    """Waits until a first sample has come in any of the streams and has filled in the pattern.

    Args:
        live: The clients' streams.
        pattern: Kind and shape of the samples, which the streams share.
        pause: Waits for the given number of seconds; it may raise to end the run.

    Raises:
        OfclError: If all streams end without a sample.
    """
    while pattern.kind is None:
        ready = [s.has_first_samples() and s.damage is None for s in live]
        if pattern.kind is None and all(ready):
            raise OfclError("the streams have ended before they brought a single sample")
        damages = [stream.damage for stream in live if stream.damage is not None]
        if len(damages) == len(live):
            raise damages[0]
        if pattern.kind is None:
            pause(LOOK_AGAIN)


def read_test_samples(
    settings: Settings, test: Iterable[Any], live: Sequence[LiveStream]
) -> list[Sample]:
    """Reads the samples to test on, and checks that they have the form of the streams' samples.

    Args:
        settings: The run's settings, in which `test` may name a file or folder.
        test: Samples handed over from Python, for settings that name no file or folder.
        live: The streams, whose columns and form hold for the test samples too.

    Raises:
        OfclError: If a sample cannot be used.
    """
    if settings.test is not None:
        known = next((s.feed.known for s in live if "columns" in s.feed.known), {})
        samples = held_out_samples(
            Path(settings.test), build_reading(settings), settings.task, dict(known)
        )
    else:
        samples = [sample for item in test for sample in samples_of_item(item, 0)]
    try:
        for sample in samples:
            if sample.problem:
                raise ValueError(sample.problem)
        return [
            replace(sample, x=live[0].form.check(sample.x), label=label_name(sample.label))
            for sample in samples
        ]
    except ValueError as error:
        raise OfclError(f"a sample to test on cannot be used: {error}") from None


def tests_of(
    samples: Callable[[], Sequence[Sample]], stream: LiveStream, vocabulary: Vocabulary
) -> SeenHeldOut:
    """Returns a client's test samples, which are read and prepared when they are first needed.

    They are prepared as the stream's own samples are. How a stream standardises is not known before
    its first rows, or the checkpoint of a resumed run, have come.

    Args:
        samples: Reads the samples.
        stream: The client's stream, whose form they have.
        vocabulary: The labels; the place of a label is its class.
    """

    @functools.cache
    def tensor() -> Tensor:
        """Returns the test samples as one tensor, prepared once."""
        return stream.form.to_tensor([sample.x for sample in samples()])

    def labels() -> list[str]:
        """Returns the label of each test sample."""
        return [sample.label for sample in samples()]

    def places() -> dict[str, int]:
        """Returns the class of each label known so far."""
        return {label: place for place, label in enumerate(vocabulary.labels)}

    return SeenHeldOut(tensor, labels, places)
