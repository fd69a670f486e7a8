"""A party's source of samples: the contract of datasets and streams, and helpers of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ofcl.client import Client
from ofcl.data.files.image_embedders import embeds_images, find_image_embedder
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.data.sample_forms import SampleForm
from ofcl.data.token_samples import makes_tokens
from ofcl.errors import OfclError
from ofcl.federation.image_vectors import embedder_words
from ofcl.federation.terms import Samples, Terms
from ofcl.own_parts.permission import check_allowed_at_party
from ofcl.pretrained.tokens import TOKENS, find_tokeniser
from ofcl.settings.files import BEFORE
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings
from ofcl.state import State


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


def is_embedded(content: str | None, settings: Settings) -> bool:
    """Says whether samples are embedded: texts always are, images if an embedder of them is named.

    Args:
        content: The content of raw data, or the kind of a stream's samples.
        settings: The settings of a run at this party.
    """
    images = content in ("images", "image files", "image")
    return content in ("texts", "text") or (images and embeds_images(settings.embedder))


def check_form(samples: Samples, terms: Terms) -> None:
    """Raises an error if the party's samples have another form than those of the run (`terms`)."""
    if difference := samples.differs(terms.samples):
        raise OfclError(f"the samples here do not fit this run: {difference}")
