"""A party's stream, which it learns as its samples come."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ofcl.assembly.checks import check_run, check_settings
from ofcl.assembly.make_client import build_live_client, build_live_stream
from ofcl.assembly.resolve import find_device, resolve
from ofcl.assembly.step_path import find_step_path
from ofcl.assembly.stream_agreement import settle
from ofcl.assembly.stream_clients import (
    form_of_streams,
    open_feeds,
    read_test_samples,
    tests_of,
)
from ofcl.data.feature_scaling import with_floor
from ofcl.data.files.image_embedders import embeds_images
from ofcl.data.live.form import Kind, Pattern
from ofcl.data.live.live_agreement import Agreement, rescaled_to
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.data.sample_forms import TableForm
from ofcl.errors import OfclError
from ofcl.federation.party_side.own_source import (
    OwnClient,
    check_form,
    embedder_name,
    is_embedded,
    settings_here,
)
from ofcl.federation.scaling import column_words
from ofcl.federation.terms import Samples, Terms
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.state import State

LOOK_AGAIN = 0.2  # seconds between two looks for a stream's first sample


class OwnStream:
    """A party's stream: a watched folder or standard input.

    Its labels are not known before its samples come, so `labels` is empty.

    Args:
        values: The party's own settings; `streams` names the one stream.
        tell: Is given each line of the party's log.
    """

    labels: tuple[str, ...] = ()
    fingerprint = ""

    def __init__(self, values: State, tell: Callable[[str], None]) -> None:
        self._here = make_settings(values)
        feeds, names = open_feeds(self._here, ())
        self._values = {**values, "streams": names}
        if self._here.test is not None:
            if not Path(self._here.test).exists():
                raise OfclError(f"no file or folder '{self._here.test}' to test on")
            self._values["test"] = str(Path(self._here.test).resolve())
        self._feeds, self._pattern, self._tell = feeds, Pattern(), tell

    def samples(self) -> Samples:
        """Describes the form of the samples; waits for the first samples.

        One sample is enough for images and texts. Of numbers, tables and images that are embedded,
        the party's own scale is part of the description, from which that of all parties is made:
        samples are waited for until there are as many as the window has, for `patience` seconds at
        most.

        Raises:
            OfclError: If the stream ends without a sample.
        """
        stream = self._first or self._stream(self._here, AssignedVocabulary())
        while self._pattern.kind is None:
            if stream.has_first_samples() and self._pattern.kind is None:
                raise OfclError("the stream has ended before it brought a single sample")
            time.sleep(LOOK_AGAIN)
        if stream.form.undecided:
            self._agree(stream)
        dataset = stream.form.empty_dataset("stream", ())
        if not stream.feed.rereads:
            self._first = stream  # the client goes on with it: its samples cannot be read again
        samples = Samples.of(dataset, "stream", self._embedder())
        return _with_scale(samples, self._agreement) if self._agreement is not None else samples

    _first: Any = None
    _agreement: Agreement | None = None

    def _agree(self, stream: LiveStream) -> None:
        """Fixes the scale and the code of the columns by the stream's first samples, once."""
        end = time.monotonic() + self._here.patience
        while self._agreement is None and not stream.has_first_samples():
            if time.monotonic() >= end:
                break
            time.sleep(LOOK_AGAIN)
        if self._agreement is None:
            self._agreement = settle([stream], self._tell)
        else:
            stream.take(self._agreement)

    def _embedder(self) -> str | None:
        """Names the embedder if the samples are texts, or images that are embedded; else None."""
        return embedder_name(self._here) if is_embedded(self._pattern.kind, self._here) else None

    def _stream(self, settings: Settings, vocabulary: AssignedVocabulary, number: int = 0) -> Any:
        """Opens the stream from its beginning.

        Args:
            settings: How the stream is read.
            vocabulary: The places that the server has given to labels.
            number: The number of the client that learns from the stream.
        """
        feed = self._feeds[0]
        return build_live_stream(
            settings, number, feed, self._pattern, vocabulary, standardise=True
        )

    def client(
        self,
        terms: Terms,
        number: int,
        vocabulary: AssignedVocabulary,
        *,
        accompanied: bool = False,
    ) -> OwnClient:
        """Makes a client that learns the stream from its beginning.

        Args:
            terms: The terms of the run.
            number: The number of the party, which is also that of the client.
            vocabulary: The places that the server has given to labels.
            accompanied: Whether a second learner learns the same without rounds (`Accompanied`).

        Raises:
            OfclError: If the samples or the settings do not fit the run.
        """
        settings = settings_here(terms, self._values, clients=1)
        again = self._pattern.kind is None
        if again:  # the party's process was started again in the middle of this run
            embedded = terms.samples.embedder is not None
            of_images = embedded and embeds_images(self._here.embedder)
            by_embedder: Kind = "image" if of_images else "text"
            kind = terms.samples.kind
            self._pattern.kind = by_embedder if embedded or kind == "tokens" else kind
            self._pattern.shape = () if embedded else terms.samples.shape
        if self._first is not None:
            stream, self._first = self._first, None
            stream.hand_to(number, vocabulary, settings.batch_size)
        else:
            stream = self._stream(settings, vocabulary, number)
        self._take_scale(stream, settings, terms)
        dataset = stream.form.empty_dataset("stream", ())
        check_form(Samples.of(dataset, "stream", self._embedder()), terms)
        check_settings(settings)
        settings = resolve(settings, dataset)
        check_run(settings, dataset)
        dataset = dataset.to(find_device(settings.device))
        samples = functools.cache(lambda: read_test_samples(settings, (), [stream]))
        if not again:
            samples()  # raises errors of the test samples now, not at the end of a task
        test = tests_of(samples, stream, vocabulary)
        client = build_live_client(settings, dataset, number, stream, test, accompanied=accompanied)
        self._tell(find_step_path([client.learner]).in_words())
        return OwnClient(
            client, settings, lambda: form_of_streams(settings, [stream], self._pattern)
        )

    def _take_scale(self, stream: LiveStream, settings: Settings, terms: Terms) -> None:
        """Gives a stream the scale of all parties; the party's own if no party has told one."""
        form, mean, std = stream.form, terms.samples.mean, terms.samples.std
        if form.embeds_images:
            form.scale_features(settings.window if settings.features == "standardised" else None)
            if mean and form.undecided:
                found = with_floor(np.array(mean), np.array(std))
                stream.take(Agreement(found, count=terms.samples.count))
        if self._agreement is not None and (form.undecided or not form.embeds_images):
            stream.take(rescaled_to(self._agreement, mean, std) if mean else self._agreement)


def _with_scale(samples: Samples, agreement: Agreement) -> Samples:
    """Adds a party's own scale and its columns to the form of its samples."""
    mean, scale = (
        tuple(v.tolist()) for v in (agreement.standardise.mean, agreement.standardise.scale)
    )
    form = TableForm(agreement.columns, mean, scale, codes=agreement.codes)
    columns = column_words(form) if agreement.columns else ()
    return replace(samples, mean=mean, std=scale, columns=columns, count=agreement.count)
