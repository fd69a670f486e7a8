"""A party's data: a dataset that it learns task by task, or a stream as it comes.

A dataset or stream makes the client of a run when the run's terms are known. The server decides
which class each label is (`Vocabulary`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ofcl.assembly.checks import check_run, check_settings, find_oddities
from ofcl.assembly.dealing import build_reading, deal
from ofcl.assembly.make_client import (
    build_dataset_client,
    build_live_client,
    build_live_stream,
)
from ofcl.assembly.resolve import find_device, resolve
from ofcl.assembly.stream_clients import (
    form_of_streams,
    open_feeds,
    read_test_samples,
    tests_of,
)
from ofcl.client import Client
from ofcl.data.dataset import Dataset
from ofcl.data.files.image_embedders import embeds_images, find_image_embedder
from ofcl.data.live.feeds import STDIN, WATCH
from ofcl.data.live.form import Kind, Pattern
from ofcl.data.live.vocabulary import AssignedVocabulary, Vocabulary
from ofcl.data.loading import read_raw
from ofcl.data.preparation import make_dataset
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm
from ofcl.data.token_samples import makes_tokens
from ofcl.errors import OfclError
from ofcl.federation.image_vectors import agreed_scaling, embedder_words
from ofcl.federation.scaling import rescaled
from ofcl.federation.terms import Samples, Terms
from ofcl.own_parts.permission import check_allowed_at_party
from ofcl.pretrained.tokens import TOKENS, find_tokeniser
from ofcl.settings.files import BEFORE
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings
from ofcl.state import State

LOOK_AGAIN = 0.2  # seconds between two looks for a stream's first sample


class Unnamed(Exception):
    """Raised when the server has not given some labels a place (a class) yet.

    Args:
        labels: The labels without a place.
    """

    def __init__(self, labels: list[str]) -> None:
        super().__init__(", ".join(labels))
        self.labels = labels


class OwnClient(NamedTuple):
    """A client that learns from a party's data, and what one must know to use its models.

    Args:
        client: The client.
        settings: The settings of the run at this party, resolved.
        sample_form: Describes how the party's samples are read. A function, because a stream
            standardises by rows that come later.
    """

    client: Client
    settings: Settings
    sample_form: Callable[[], SampleForm]


class Source(Protocol):
    """A party's dataset or stream: the source of its samples.

    Attributes:
        labels: The labels of the dataset; empty for a stream, whose labels come later.
        fingerprint: A checksum of the dataset; empty for a stream, which may grow.
    """

    labels: tuple[str, ...]
    fingerprint: str

    def samples(self) -> Samples:
        """Describes the form of the samples; a stream may wait for its first sample."""

    def client(
        self,
        terms: Terms,
        number: int,
        vocabulary: AssignedVocabulary,
        *,
        accompanied: bool = False,
    ) -> OwnClient:
        """Makes a client that learns from this source, from its first sample on.

        Args:
            terms: The terms of the run.
            number: The number of the party, which is also that of the client.
            vocabulary: The places that the server has given to labels.
            accompanied: Whether a second learner learns the same without rounds (`Accompanied`).

        Raises:
            Unnamed: If labels of the source have no place yet.
        """


def open_source(values: State, share: bool, tell: Callable[[str], None]) -> Source:
    """Opens the dataset or stream that a party has named.

    Args:
        values: The party's own settings; `dataset` is a dataset's name or path, or a stream.
        share: Whether the party learns only the share of the dataset that `ofcl run` would deal to
            the client of its number, to try things out.
        tell: Is given each line of the party's log.

    Raises:
        OfclError: If a value is not the party's to decide, or the data cannot be read.
    """
    if odd := [name for name in values if name not in AT_PARTY]:
        raise OfclError(f"{odd[0]} is decided for all parties, by the settings of the run")
    name = str(values.get("dataset", ""))
    if name == STDIN or name.startswith(WATCH):
        if share:
            raise OfclError("--share is for a dataset that all parties have; a stream is one's own")
        rest = {key: value for key, value in values.items() if key != "dataset"}
        return OwnStream({**rest, "streams": (name,)}, tell)
    return OwnDataset(values, share, tell)


def settings_here(terms: Terms, values: State, **more: Any) -> Settings:
    """Makes the settings of a run at this party.

    The server's settings never override those that a party decides for itself (`AT_PARTY`).

    Args:
        terms: The terms of the run, with the server's settings.
        values: The party's own settings.
        more: Settings that override the server's and the party's.
    """
    theirs = {**BEFORE}  # of a server of an earlier version
    theirs |= {name: value for name, value in terms.settings.items() if name not in AT_PARTY}
    check_allowed_at_party(theirs, make_settings({"allow": values.get("allow", ())}).allow)
    return make_settings({**theirs, **values, "engine": "local", **more})


def embedder_name(settings: Settings) -> str:
    """Names the embedder without telling a path: of a folder, only the folder's name.

    The name of an embedder of images has a checksum of its weights and preprocessing.

    Args:
        settings: The settings of a run at this party.
    """
    if embeds_images(settings.embedder):
        return embedder_words(find_image_embedder(settings.embedder))
    if makes_tokens(settings.embedder):
        name = settings.embedder.removeprefix(TOKENS)
        known = find_tokeniser(name, settings.weights)
        return f"{TOKENS}{known.name} (checksum {known.checksum[:16]})"
    path = Path(settings.embedder).expanduser()
    return path.resolve().name if path.exists() else settings.embedder


def _embedded(content: str | None, settings: Settings) -> bool:
    """Says whether samples are embedded: texts always are, images if an embedder of them is named.

    Args:
        content: The content of raw data, or the kind of a stream's samples.
        settings: The settings of a run at this party.
    """
    images = content in ("images", "image files", "image")
    return content in ("texts", "text") or (images and embeds_images(settings.embedder))


class OwnDataset:
    """A party's dataset, learned task by task.

    Tasks are made of the labels that were known when the run began; labels that came later belong
    to the last task.

    Args:
        values: The party's own settings; `dataset` is a name or a path.
        share: Whether the party learns only the share of the dataset that `ofcl run` would deal to
            the client of its number.
        tell: Is given each line of the party's log.
    """

    def __init__(self, values: State, share: bool, tell: Callable[[str], None]) -> None:
        self._values, self._share, self._tell = values, share, tell
        here = make_settings(values)
        # Vectors of images are scaled later, as all parties agree (`_placed`).
        reading = replace(build_reading(here), features="unit")
        raw = read_raw(here.dataset, reading, tell)
        self._embedder = embedder_name(here) if _embedded(raw.content, here) else None
        self._dataset = make_dataset(raw, reading)
        self.labels, self.fingerprint = self._dataset.labels, self._dataset.fingerprint()

    def samples(self) -> Samples:
        """Describes the form of the dataset's samples."""
        return Samples.of(self._dataset, "dataset", self._embedder)

    def client(
        self,
        terms: Terms,
        number: int,
        vocabulary: AssignedVocabulary,
        *,
        accompanied: bool = False,
    ) -> OwnClient:
        """Makes a client that learns the dataset, or the party's share of it.

        Args:
            terms: The terms of the run.
            number: The number of the party, which is also that of the client.
            vocabulary: The places that the server has given to labels.
            accompanied: Whether a second learner learns the same without rounds (`Accompanied`).

        Raises:
            Unnamed: If labels of the dataset have no place yet.
            OfclError: If the samples or the settings do not fit the run.
        """
        if unnamed := [label for label in self.labels if label not in vocabulary]:
            raise Unnamed(unnamed)
        _check_form(self.samples(), terms)
        clients = terms.clients if self._share else 1
        settings = settings_here(terms, self._values, clients=clients)
        dataset = _placed(self._dataset, vocabulary, terms)
        settings = resolve(settings, dataset)
        validation = dataset.y_validation
        shares = deal(
            settings,
            dataset.y_train.numpy(),
            dataset.y_test.numpy(),
            terms.base,
            None if validation is None else validation.numpy(),
        )
        alone = settings.model_copy(update={"min_clients": 1})  # rounds are the server's business
        check_settings(alone)
        check_run(alone, dataset, len({c for s in shares for task in s.tasks for c in task}))
        for warning in find_oddities(alone, shares):
            self._tell(warning)
        dataset = dataset.to(find_device(settings.device))
        own_share = shares[number if self._share else 0]
        client = build_dataset_client(
            settings, dataset, number, own_share, classes=terms.base, accompanied=accompanied
        )
        return OwnClient(client, settings, lambda: _normalised(dataset.sample_form, terms))


def _placed(dataset: Dataset, vocabulary: Vocabulary, terms: Terms) -> Dataset:
    """Gives a dataset the classes and the normalisation that all parties of the run share.

    Args:
        dataset: The party's dataset, with classes numbered by its own labels.
        vocabulary: The place of each label in the run, which becomes its class.
        terms: The terms of the run, with the mean and deviation that normalise images.
    """
    places = torch.tensor([vocabulary.place(label) for label in dataset.labels])

    def placed(y: Tensor | None) -> Tensor | None:
        return None if y is None else places[y]

    changed: dict[str, Any] = {
        name: placed(getattr(dataset, name)) for name in ("y_train", "y_test", "y_validation")
    }
    agreed = terms.samples
    if dataset.kind == "image":
        changed |= {"mean": agreed.mean, "std": agreed.std}
    elif isinstance(dataset.form, TableForm) and agreed.mean:
        for name in ("x_train", "x_test", "x_validation"):
            if (x := getattr(dataset, name)) is not None:
                changed[name] = rescaled(x, dataset.form, agreed.mean, agreed.std)
    elif isinstance(dataset.form, ImageForm):
        scaling = agreed_scaling(terms.settings, agreed.mean, agreed.std)
        for name in ("x_train", "x_test", "x_validation"):
            if scaling is not None and (x := getattr(dataset, name)) is not None:
                changed[name] = scaling.of_tensor(x)
    return replace(dataset, labels=vocabulary.labels, **changed)


def _normalised(form: SampleForm, terms: Terms) -> SampleForm:
    """Gives the form of a party's samples the scaling that all parties of the run share."""
    if isinstance(form, TableForm) and terms.samples.mean:
        return replace(form, mean=terms.samples.mean, scale=terms.samples.std)
    if not isinstance(form, ImageForm):
        return form
    if form.embedder is not None:
        scaling = agreed_scaling(terms.settings, terms.samples.mean, terms.samples.std)
        mean, scale = scaling.plain() if scaling is not None else ((), ())
        return replace(form, feature_mean=mean, feature_scale=scale)
    return replace(form, mean=terms.samples.mean, std=terms.samples.std)


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
        """Describes the form of the samples; waits for the first sample.

        Raises:
            OfclError: If the stream ends without a sample.
        """
        stream = self._first or self._stream(self._here, AssignedVocabulary())
        while self._pattern.kind is None:
            if stream.ready() and self._pattern.kind is None:
                raise OfclError("the stream has ended before it brought a single sample")
            time.sleep(LOOK_AGAIN)
        dataset = stream.form.empty_dataset("stream", ())
        if not stream.feed.rereads:
            self._first = stream  # the client goes on with it: its samples cannot be read again
        return Samples.of(dataset, "stream", self._embedder())

    _first: Any = None

    def _embedder(self) -> str | None:
        """Names the embedder if the samples are texts, or images that are embedded; else None."""
        return embedder_name(self._here) if _embedded(self._pattern.kind, self._here) else None

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
            stream.form.scale_features(
                settings.window if settings.features == "standardised" else None
            )
        else:
            stream = self._stream(settings, vocabulary, number)
        dataset = stream.form.empty_dataset("stream", ())
        _check_form(Samples.of(dataset, "stream", self._embedder()), terms)
        check_settings(settings)
        settings = resolve(settings, dataset)
        check_run(settings, dataset)
        dataset = dataset.to(find_device(settings.device))
        samples = functools.cache(lambda: read_test_samples(settings, (), [stream]))
        if not again:
            samples()  # raises errors of the test samples now, not at the end of a task
        test = tests_of(samples, stream, vocabulary)
        client = build_live_client(settings, dataset, number, stream, test, accompanied=accompanied)
        return OwnClient(
            client, settings, lambda: form_of_streams(settings, [stream], self._pattern)
        )


def _check_form(samples: Samples, terms: Terms) -> None:
    """Raises an error if the party's samples have another form than those of the run (`terms`)."""
    if difference := samples.differs(terms.samples):
        raise OfclError(f"the samples here do not fit this run: {difference}")
