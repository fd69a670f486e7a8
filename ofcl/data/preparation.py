"""Preparation of a dataset: selects raw samples, decodes or embeds them, and makes tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from ofcl.data.dataset import Dataset, Kind
from ofcl.data.feature_scaling import measure_features, to_length_1
from ofcl.data.files.embedders import find_embedder
from ofcl.data.files.embeddings import embed
from ofcl.data.files.image_embedders import embeds_images, find_image_embedder
from ofcl.data.files.images import ImageReader, read_images
from ofcl.data.image_features import ImageFeatures
from ofcl.data.options import Damage, Reading, no_progress
from ofcl.data.raw import Part, Raw, quote_labels
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm, TextForm, VectorForm
from ofcl.data.selection import check_classes, train_and_test
from ofcl.data.standardisation import Standardisation
from ofcl.data.stored_rows import StoredRows, StoredSamples
from ofcl.data.table_code import TableCode, encode_stored, places_of_words
from ofcl.data.token_samples import TokenSamples, makes_tokens
from ofcl.errors import OfclError

Decode = Callable[[Any], np.ndarray | tuple[np.ndarray, np.ndarray]]
"""Turns the samples of a part into an array; may also return the rows that could be read."""


def make_dataset(raw: Raw, how: Reading) -> Dataset:
    """Makes a dataset from raw samples.

    Takes the subset that the options ask for, splits off a test part if there is none, and decodes
    images or embeds texts.

    Args:
        raw: The samples as they were read.
        how: The options of reading: the subset, the embedder, the size of images and so on.

    Raises:
        OfclError: The samples cannot be used, and the message says why.
    """
    test_was_split_off = raw.test is None
    train, test = train_and_test(raw, how)
    raw = replace(raw, train=train, test=test)
    damage = Damage(how.on_bad)
    decode = _decoder(raw, how, damage)
    to_tensors = _tensor_maker(raw, decode)
    (x_train, y_train), (x_test, y_test) = to_tensors(train), to_tensors(test)
    untrained = ~torch.isin(y_test, y_train)
    if test_was_split_off and untrained.any():
        # Damaged samples were all that a class had to learn from. Its test samples become train
        # samples, as `split` does with a class of one sample.
        x_train = torch.cat([x_train, x_test[untrained]])
        y_train = torch.cat([y_train, y_test[untrained]])
        x_test, y_test = x_test[~untrained], y_test[~untrained]
    x_validation, y_validation = to_tensors(raw.validation) if raw.validation else (None, None)
    scaling = None
    if isinstance(decode, ImageFeatures) and how.features == "standardised":
        scaling = _feature_scaling(x_train, how)
        x_train, x_test = scaling.of_tensor(x_train), scaling.of_tensor(x_test)
        x_validation = None if x_validation is None else scaling.of_tensor(x_validation)
    check_classes(raw, y_train.numpy(), y_test.numpy(), how.fewest_classes)
    if raw.content in ("table", "mixed table") and not (_finite(x_train) and _finite(x_test)):
        raise OfclError(
            f"'{raw.name}': a column hardly varies in {how.window} rows from all over and is too "
            "large in others; standardise from more rows with --set window=N, or mend the numbers"
        )
    untested = _note_untested(raw, y_train.numpy(), y_test.numpy())
    dataset = Dataset(
        name=raw.name,
        kind="tokens" if isinstance(decode, TokenSamples) else _kind(x_train),
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        labels=raw.labels,
        mean=raw.mean,
        std=raw.std,
        x_validation=x_validation,
        y_validation=y_validation,
        notes=raw.notes + damage.notes(raw.name) + untested,
    )
    form = _form(raw, how, decode, dataset)
    if isinstance(form, ImageForm) and scaling is not None:
        mean, scale = scaling.plain()
        form = replace(form, feature_mean=mean, feature_scale=scale)
    return replace(dataset, form=form)


def _feature_scaling(vectors: Tensor, how: Reading) -> Standardisation:
    """Measures how the vectors of images are scaled, or takes the scaling of an earlier run.

    Args:
        vectors: The vectors (n, d) of the train images.
        how: The options of reading.
    """
    if how.standardisation is not None:
        return Standardisation(*map(np.array, how.standardisation))
    if not len(vectors):
        raise OfclError("no train image could be read, by whose vectors all are standardised")
    return to_length_1(measure_features(vectors.numpy()))


def _kind(x: Tensor) -> Kind:
    """Tells images from vectors."""
    return "image" if x.dim() == 4 else "vector"


def _form(raw: Raw, how: Reading, decode: Decode, dataset: Dataset) -> SampleForm:
    """Describes how the samples were read, so that others can be read in the same way.

    Args:
        raw: The samples as they were read.
        how: The options of reading.
        decode: The function that has turned them into arrays.
        dataset: The dataset that was made of them.
    """
    match raw.content:
        case "image files" | "images":
            if isinstance(decode, ImageFeatures):
                return decode.form()
            channels, height, width = dataset.shape
            shape, mean, std = (channels, height, width), dataset.mean, dataset.std
            if isinstance(decode, ImageReader):
                return ImageForm(shape, mean, std, decode.resized, decode.largest)
            return ImageForm(shape, mean, std)
        case "texts" if isinstance(decode, TokenSamples):
            return decode.form(next(iter(raw.columns), None), raw.label)
        case "texts":
            embedder, column = find_embedder(how.embedder), next(iter(raw.columns), None)
            return TextForm(embedder, dataset.shape[0], column, raw.label)
        case "table":
            assert isinstance(decode, Standardisation)
            mean, scale = tuple(decode.mean.tolist()), tuple(decode.scale.tolist())
            return TableForm(raw.columns, mean, scale, raw.label)
        case "mixed table":
            assert isinstance(decode, TableCode)
            found = decode.standardise
            mean, scale = tuple(found.mean.tolist()), tuple(found.scale.tolist())
            return TableForm(raw.columns, mean, scale, raw.label, decode.codes)
        case "vectors":
            return VectorForm(dataset.shape[0], next(iter(raw.columns), None), raw.label)


def _tensor_maker(raw: Raw, decode: Decode) -> Callable[[Part], tuple[Tensor, Tensor]]:
    """Makes a function that turns a part into two tensors: its samples and their classes.

    Args:
        raw: The whole dataset.
        decode: Turns the samples of a part into an array; the tensors lack those that it leaves
            out.
    """

    def to_tensors(part: Part) -> tuple[Tensor, Tensor]:
        if isinstance(part.samples, StoredRows):
            # Streams and tests ask nothing of it that it does not answer as a tensor does.
            samples = cast(Tensor, _stored_samples(part.samples, decode))
            return samples, torch.from_numpy(part.y).long()
        # An empty part has the shape of the others: one train sample shows it.
        some: Any = part.samples if len(part) else raw.train[np.arange(1)].samples
        decoded = decode(some)
        x, kept = decoded if isinstance(decoded, tuple) else (decoded, np.arange(len(decoded)))
        x, y = (x, part.y[kept]) if len(part) else (x[:0], part.y)
        return torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y).long()

    return to_tensors


def _finite(x: Tensor | StoredSamples) -> bool:
    """Says whether all numbers of some samples are finite."""
    return x.all_finite() if isinstance(x, StoredSamples) else bool(x.isfinite().all())


def _stored_samples(rows: StoredRows, decode: Decode) -> StoredSamples:
    """Makes samples that are read from the disk, and encoded, when they are asked for.

    Args:
        rows: The stored rows.
        decode: The standardisation of numbers, or the code of a mixed table.
    """
    if isinstance(decode, TableCode):
        places = places_of_words(decode.codes, rows.words)
        encode = functools.partial(encode_stored, decode.codes, places)
        standardise = decode.standardise
        return StoredSamples(rows, lambda x: standardise(encode(x)), len(standardise.mean))
    assert isinstance(decode, Standardisation)
    return StoredSamples(rows, decode, len(decode.mean))


def _decoder(raw: Raw, how: Reading, damage: Damage) -> Decode:
    """Chooses the function that turns the samples of a part into an array, by the kind of samples.

    Args:
        raw: The whole dataset.
        how: The options of reading.
        damage: Image files that cannot be read are reported to it.
    """
    if embeds_images(how.embedder):
        return _features(raw, how, damage)
    match raw.content:
        case "image files":
            parts = [p.samples for p in (raw.train, raw.test, raw.validation) if p is not None]
            files = list(itertools.chain(*parts))
            return read_images(files, how.image_size, damage, how.track, how.white)
        case "images":
            return np.asarray
        case "texts" if makes_tokens(how.embedder):
            return TokenSamples(how.embedder, how.tokens, how.weights)
        case "texts":
            return functools.partial(embed, embedder=how.embedder, root=how.root, track=how.track)
        case "table" if how.standardisation is not None:
            return Standardisation(*map(np.array, how.standardisation))
        case "table":
            # Rows from all over: files are often sorted by class.
            spread = np.linspace(0, len(raw.train) - 1, min(how.window, len(raw.train)))
            rows = raw.train[spread.astype(int)].samples
            if isinstance(rows, StoredRows):
                return Standardisation.of(rows.read())
            return Standardisation.of(np.asarray(rows))
        case "mixed table" if how.standardisation is not None:
            standardise = Standardisation(*map(np.array, how.standardisation))
            return TableCode(raw.codes, standardise)
        case "mixed table" if isinstance(raw.train.samples, StoredRows):
            return TableCode.of_stored(raw.codes, raw.train.samples, how.window)
        case "mixed table":
            return TableCode.of(raw.codes, list(raw.train.samples), how.window)
        case "vectors":
            return functools.partial(np.asarray, dtype=np.float32)


def _features(raw: Raw, how: Reading, damage: Damage) -> Decode:
    """Makes the function that turns the images of a part into vectors, by an embedder.

    Args:
        raw: The whole dataset.
        how: The options of reading, which name an embedder of images.
        damage: Image files that cannot be read are reported to it.
    """
    if raw.content not in ("image files", "images"):
        kind = {"texts": "texts", "vectors": "vectors"}.get(raw.content, "rows of a table")
        raise OfclError(f"'{how.embedder}' embeds images, but '{raw.name}' has {kind}")
    embedder = find_image_embedder(how.embedder)
    if raw.content == "images":
        return ImageFeatures(embedder, how.root, np.shape(raw.train.samples)[1:], how.track)
    side = how.image_size or embedder.side
    plain = replace(how, embedder="", image_size=side, track=no_progress)
    read = _decoder(raw, plain, damage)
    assert isinstance(read, ImageReader)
    return ImageFeatures(embedder, how.root, read.shape, how.track, read)


def _note_untested(raw: Raw, y_train: np.ndarray, y_test: np.ndarray) -> tuple[str, ...]:
    """Makes a line for the user about classes without test samples; () if all classes have some.

    Args:
        raw: The dataset, for its labels.
        y_train: The class of each train sample.
        y_test: The class of each test sample.
    """
    untested = np.setdiff1d(y_train, y_test)
    if not untested.size:
        return ()
    names = quote_labels(raw.labels, untested)
    return (f"no test samples of {names}: A and F say nothing of them",)
