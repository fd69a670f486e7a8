"""The description of a model: `model.json` of its bundle, with a version and a schema."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ofcl.data.sample_forms import ImageForm, TableForm, TextForm, VectorForm
from ofcl.errors import OfclError
from ofcl.uncertainty.perturbations import IMAGE_PERTURBATIONS

VERSION = 1
"""The version of the format; a bundle of a later version is refused."""

MOST_LABELS = 100_000
_STRICT = ConfigDict(extra="forbid")

Size = Annotated[int, Field(gt=0, le=10**9)]


@dataclass(frozen=True)
class Pretrained:
    """The pretrained part of a network, which is referred to and not in the bundle.

    Args:
        checksum: The SHA-256 of its weights.
        tune: The part of it that has learned, which is in the bundle.
        rank: The rank of adapters.
        side: The side to which it resizes images; None: the one that it was trained on.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    checksum: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    tune: Annotated[str, Field(max_length=20)]
    rank: Annotated[int, Field(ge=1, le=1024)]
    side: Annotated[int, Field(ge=1, le=4096)] | None = None


@dataclass(frozen=True)
class Network:
    """The network and its sizes.

    Args:
        name: A name in `models.MODELS`.
        outputs: The outputs of its head; as many as there are labels, or more.
        width: The channels of the first stage of networks for images.
        hidden: The units of the MLP's hidden layer.
        pretrained: The pretrained part; None: all weights are in the bundle.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    outputs: Size
    width: Size
    hidden: Size
    pretrained: Pretrained | None = None


@dataclass(frozen=True)
class Perturbed:
    """The perturbed copies of a sample, by which the model's uncertainty is measured.

    Args:
        perturbations: The names of the perturbations of images; empty: copies get noise.
        pixels: Whether raw or normalised pixels are changed.
        interpolation: How rotated pixels get their values.
        noise_std: The standard deviation of the noise on the network's input; of token ids, the
            share that is hidden.
        noise_copies: The number of noisy copies.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    perturbations: tuple[str, ...]
    pixels: Literal["raw", "normalised"]
    interpolation: Literal["bilinear", "nearest"]
    noise_std: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    noise_copies: Annotated[int, Field(gt=0, le=1000)]


@dataclass(frozen=True)
class Curve:
    """How often the model errs if it answers only where it is sure enough, on validation data.

    Place i of the three lists: a sample is answered if the model is at most as unsure about it as
    `thresholds[i]`; `coverage[i]` of the samples are, and `errors[i]` of these answers are wrong.

    Args:
        thresholds: Rising. By probability: 1 − the probability of the likeliest class. By
            uncertainty: the uncertainty.
        coverage: The share of samples that are answered, from 0 to 1.
        errors: The share of wrong answers among them, from 0 to 1.
        samples: The number of validation samples.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    thresholds: tuple[float, ...]
    coverage: tuple[float, ...]
    errors: tuple[float, ...]
    samples: int


@dataclass(frozen=True)
class Learned:
    """How the model was learned.

    Args:
        settings: The settings of the run, without paths and names of files.
        data: The name of the data.
        fingerprint: A checksum of the data; empty for streams and parties.
        clients: The number of clients.
        rounds: The number of rounds.
        tasks: The labels of each task that was learned so far, if all clients have the same; the
            last accuracies of the run are those of these tasks.
        finished: Whether the run was over.
        metrics: Figures of the run's result: `A`, `F`, `global_A` and others, in percent.
        epsilon: The privacy cost of a client's updates; None: there was no differential privacy.
        made_with: Versions of ofcl, Python and PyTorch.
        licence: The licence under which the model may be used; empty: nobody has said.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    settings: dict[str, Any]
    data: str
    fingerprint: str
    clients: int
    rounds: int
    tasks: tuple[tuple[str, ...], ...]
    finished: bool
    metrics: dict[str, float | None]
    epsilon: float | None
    made_with: dict[str, Any]
    licence: str = ""


@dataclass(frozen=True)
class Description:
    """All facts about a model but its weights.

    Args:
        labels: The label of each class.
        network: The network and its sizes.
        samples: How samples are read and become the network's input.
        classifier: `head`: the likeliest output; `nearest-mean`: the nearest class prototype, which
            is among the weights.
        uncertainty: The copies of a sample by which uncertainty is measured.
        learned: How the model was learned.
        abstention: Errors against coverage on validation data, by `probability` and `uncertainty`;
            empty: there were no validation data.
        weights_sha256: The checksum of the file of weights.
        format: Tells these files from others.
        version: The version of the format.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    labels: tuple[str, ...]
    network: Network
    samples: Annotated[ImageForm | TableForm | VectorForm | TextForm, Field(discriminator="kind")]
    classifier: Literal["head", "nearest-mean"]
    uncertainty: Perturbed
    learned: Learned
    abstention: dict[Literal["probability", "uncertainty"], Curve] = field(default_factory=dict)
    weights_sha256: str = ""
    format: Literal["ofcl-model"] = "ofcl-model"
    version: int = VERSION


_ADAPTER: TypeAdapter[Description] = TypeAdapter(Description)


def to_json(description: Description) -> str:
    """Writes a description as the text of `model.json`.

    Args:
        description: The description.
    """
    return _ADAPTER.dump_json(description, indent=1).decode() + "\n"


def from_json(text: str) -> Description:
    """Reads a description, and checks it: it may be anybody's.

    Args:
        text: The text of `model.json`.

    Raises:
        OfclError: If it is not the description of a model, or of a later version; the message says
            what is wrong.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise OfclError("its model.json is not JSON") from None
    if not isinstance(values, dict) or values.get("format") != "ofcl-model":
        raise OfclError("its model.json does not describe a model of ofcl")
    version = values.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise OfclError(
            f"it has version {version!r} of the format, and this ofcl reads up to {VERSION}; "
            "upgrade ofcl"
        )
    try:
        description = _ADAPTER.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise OfclError(f"its model.json is wrong at '{where}': {first['msg']}") from None
    _check(description)
    return description


def json_schema() -> dict[str, Any]:
    """Returns the JSON schema of `model.json`, for programs in other languages."""
    return _ADAPTER.json_schema()


def _check(description: Description) -> None:
    """Raises an error if values of a description do not fit together."""
    labels, samples = description.labels, description.samples
    if not 0 < len(labels) <= MOST_LABELS or len(set(labels)) != len(labels):
        raise OfclError("its model.json has no labels, too many, or one of them twice")
    if description.network.outputs < len(labels):
        outputs = description.network.outputs
        raise OfclError(f"its model.json has {len(labels)} labels but {outputs} outputs")
    _check_uncertainty(description)
    numbers = [*getattr(samples, "mean", ()), *getattr(samples, "std", ())]
    for name in ("scale", "feature_mean", "feature_scale"):
        numbers += getattr(samples, name, ())
    if not all(abs(number) < 1e300 for number in numbers):  # also false for NaN
        raise OfclError("its model.json has a normalisation that is no number")
    if isinstance(samples, ImageForm):
        channels, height, width = samples.shape
        fits = channels in (1, 3) and 0 < height <= 4096 and 0 < width <= 4096
        if not fits or not len(samples.mean) == len(samples.std) == channels:
            raise OfclError("its model.json has images of a shape that cannot be")
        if not all(samples.std):
            raise OfclError("its model.json divides images by zero")
        if samples.embedder is not None and not 0 < samples.embedder.length <= 10**7:
            raise OfclError("its model.json has vectors of a length that cannot be")
        _check_features(samples)
        return
    if not 0 < samples.shape[0] <= 10**7:
        raise OfclError("its model.json has samples of a length that cannot be")
    if isinstance(samples, TableForm):
        widths = [code.width for code in samples.codes] or [1] * len(samples.columns)
        names = tuple(code.name for code in samples.codes) or samples.columns
        if sum(widths) != samples.shape[0] or names != samples.columns:
            raise OfclError("its model.json has columns that do not fit its standardisation")
    if not isinstance(samples, TextForm):
        sizes = {len(samples.mean), len(samples.scale)}
        if sizes - {0, samples.shape[0]} or len(sizes) > 1 or not all(samples.scale):
            raise OfclError("its model.json has a standardisation that does not fit its samples")


def _check_features(samples: ImageForm) -> None:
    """Raises an error if a scaling of vectors does not fit the network that makes them."""
    length = 0 if samples.embedder is None else samples.embedder.length
    sizes = {len(samples.feature_mean), len(samples.feature_scale)}
    if sizes - {0, length} or len(sizes) > 1 or not all(samples.feature_scale):
        raise OfclError("its model.json has a scaling that does not fit its vectors of images")


def _check_uncertainty(description: Description) -> None:
    """Raises an error if perturbations are unknown, or a curve is none."""
    names = description.uncertainty.perturbations
    strange = [name for name in names if name not in IMAGE_PERTURBATIONS]
    if strange and isinstance(description.samples, ImageForm):
        raise OfclError(f"its model.json names a perturbation '{strange[0]}' that is unknown")
    for curve in description.abstention.values():
        values = (curve.thresholds, curve.coverage, curve.errors)
        if len({len(column) for column in values}) > 1 or curve.samples < 0:
            raise OfclError("its model.json has errors and coverage that do not fit together")
        if not all(math.isfinite(value) for column in values for value in column):
            raise OfclError("its model.json has errors or coverage that are no numbers")
