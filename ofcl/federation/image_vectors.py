"""Images that parties turn into vectors by one pretrained network: which one, and how scaled.

Each party says which network it has, by the checksum of its weights and preprocessing, and the mean
and deviation of its vectors. From these the server makes the scaling that all parties take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from ofcl.data.feature_scaling import measure_features, to_length_1, with_floor
from ofcl.data.files.image_embedders import ImageEmbedder, public_name
from ofcl.data.sample_forms import ImageForm
from ofcl.data.standardisation import Standardisation
from ofcl.engines.rejection import Rejected

LARGEST_SIDE = 4096  # pixels
_FORM: TypeAdapter[ImageForm] = TypeAdapter(ImageForm)

Numbers = tuple[float, ...]


def embedder_words(embedder: ImageEmbedder) -> str:
    """Names an embedder without telling a path, with a checksum of its weights and preprocessing.

    Args:
        embedder: The embedder of a party.
    """
    facts = hashlib.sha256(str(replace(embedder, name="")).encode()).hexdigest()
    return f"{public_name(embedder.name)} (checksum {facts[:16]})"


def shared_form(form: ImageForm) -> ImageForm:
    """Returns the form of images as it may leave a party: without folders and statistics.

    Args:
        form: The form of the party's images, with an embedder.
    """
    assert form.embedder is not None
    named = replace(form.embedder, name=public_name(form.embedder.name))
    return replace(form, embedder=named, feature_mean=(), feature_scale=())


def vector_moments(x: Tensor) -> tuple[Numbers, Numbers]:
    """Measures mean and deviation of each number of a party's vectors.

    Args:
        x: The vectors (n, d) of length 1, at least one.
    """
    return measure_features(x.cpu().numpy()).plain()


def agreed_scaling(
    settings: Mapping[str, Any], mean: Numbers, std: Numbers
) -> Standardisation | None:
    """Makes the scaling of all parties' vectors; None: they keep length 1.

    Args:
        settings: The settings of the run; those of earlier versions scale nothing.
        mean: The mean of each number over all parties; empty: no party tells it.
        std: The deviation of each number, in the same way.
    """
    if settings.get("features", "unit") != "standardised" or not mean:
        return None
    return to_length_1(with_floor(np.array(mean), np.array(std)))


def read_form(state: Any) -> ImageForm | None:
    """Reads the form of a party's images from plain values.

    Args:
        state: The values by the names of the fields; None: samples are no embedded images.

    Raises:
        Rejected: If it is no such form.
    """
    if state is None:
        return None
    try:
        return _FORM.validate_python(state)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Rejected(f"the form of its images is wrong at '{where}'") from None


def check_form(form: ImageForm, embedder: str | None, shape: tuple[int, ...]) -> None:
    """Rejects a form of images that does not fit the embedder that the party names.

    Args:
        form: The form of the party's images.
        embedder: The name of its embedder, with the checksum.
        shape: The shape of its samples, which are vectors.
    """
    channels, height, width = form.shape
    sides = 0 < height <= LARGEST_SIDE and 0 < width <= LARGEST_SIDE
    if form.embedder is None or shape != (form.embedder.length,):
        raise Rejected("its images have no embedder, or one of other vectors")
    if embedder != embedder_words(form.embedder):
        raise Rejected("the checksum of its embedder is not that of the network it describes")
    if not sides or channels not in (1, 3) or form.feature_mean or form.feature_scale:
        raise Rejected("the form of its images cannot be")
    if form.mean != (0.0,) * channels or form.std != (1.0,) * channels:
        raise Rejected("its images are normalised before they are embedded")
