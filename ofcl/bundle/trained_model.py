"""A model that has been learned, ready to be used: it predicts, and says how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ofcl.bundle.description import Description
from ofcl.bundle.given_samples import collect, decode
from ofcl.compute.batching import forward_size
from ofcl.data.files.embedder_networks import LITE0
from ofcl.data.files.embedders import EMBEDDERS, Embedder, Encode, find_embedder, load_encoder
from ofcl.data.files.embeddings import embed, embed_images
from ofcl.data.files.image_embedders import (
    ImageEmbedder,
    find_image_embedder,
    load_image_embedder,
)
from ofcl.data.files.image_encoding import encode_images
from ofcl.data.options import Progress, no_progress
from ofcl.data.sample_forms import ImageForm, TableForm, TextForm
from ofcl.data.standardisation import Standardisation
from ofcl.data.table_code import TableCode
from ofcl.errors import OfclError
from ofcl.pretrained.tokens import Tokeniser, find_tokeniser, known_folder, tokenise
from ofcl.seeds import generator
from ofcl.uncertainty.change import Perturbation
from ofcl.uncertainty.perturbations import ImageViews, MaskedCopies, NoisyCopies
from ofcl.uncertainty.scorer import uncertainty
from ofcl.uncertainty.scores import bregman_information


class Answers(NamedTuple):
    """A model's answers about n samples.

    Args:
        probabilities: The probability of each class (n, classes).
        uncertainty: The Bregman information of each sample (n,); empty if it was not asked for.
    """

    probabilities: np.ndarray
    uncertainty: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        """The likeliest class of each sample (n,)."""
        return np.asarray(self.probabilities.argmax(axis=1))


@dataclass(frozen=True)
class TextOptions:
    """How a model of texts gets its vectors.

    Args:
        embedder: The name or folder of the embedder; None: the one that the bundle names.
        cache: The data folder with cached vectors; None: vectors are computed and not kept.
    """

    embedder: str | None = None
    cache: Path | None = None


class TrainedModel:
    """A learned model: `predict` takes whatever the run has learned from.

    Samples are arrays, tensors, Pillow images, paths, texts, rows as dictionaries, a frame of
    pandas or polars, or lists of these. For one sample, the answer is one; for several, an array.

    Args:
        description: The description in its bundle.
        module: The network, in evaluation mode.
        resize: Whether images of another size are resized even if the model has not learned from
            resized ones.
        texts: How texts become vectors, for a model of texts.

    Attributes:
        description: All facts about the model.
        module: The network, a plain PyTorch module that takes prepared samples.
    """

    def __init__(
        self,
        description: Description,
        module: nn.Module,
        *,
        resize: bool = False,
        texts: TextOptions = TextOptions(),  # noqa: B008 (it is frozen)
    ) -> None:
        self.description, self.module = description, module
        self._resize, self._texts = resize, texts
        self._encode: Encode | None = None  # loaded when the first text comes

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it can answer, in the order of its classes."""
        return self.description.labels

    @property
    def resizes(self) -> bool:
        """Whether images of another size are resized even if it has not learned from such."""
        return self._resize

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.module.parameters()).device

    def to(self, device: str | torch.device) -> TrainedModel:
        """Moves the network to a device, and returns the model itself.

        Args:
            device: For example `cuda`.
        """
        self.module.to(device)
        return self

    def predict(self, x: Any, progress: Progress = no_progress) -> Any:
        """Predicts labels.

        Args:
            x: One sample or several.
            progress: Shows how far it is.

        Returns:
            The label; of several samples, an array (n,) of labels.
        """
        answers, single = self._ask(x, progress, measure=False)
        labels = np.array(self.labels, dtype=object)[answers.classes]
        return labels[0] if single else labels

    def predict_proba(self, x: Any, progress: Progress = no_progress) -> np.ndarray:
        """Predicts the probability of each class, in the order of `labels`.

        Args:
            x: One sample or several.
            progress: Shows how far it is.

        Returns:
            Probabilities (n, classes); of one sample, (classes,).
        """
        answers, single = self._ask(x, progress, measure=False)
        return answers.probabilities[0] if single else answers.probabilities

    def uncertainty(self, x: Any, progress: Progress = no_progress) -> Any:
        """Measures how unsure the model is: the Bregman information over perturbed copies.

        All samples are perturbed by the same random numbers, so the value of a sample does not
        depend on the samples beside it, and is the same every time.

        Args:
            x: One sample or several.
            progress: Shows how far it is.

        Returns:
            Values ≥ 0 (n,), larger if less certain; of one sample, a number.
        """
        answers, single = self._ask(x, progress, measure=True)
        return float(answers.uncertainty[0]) if single else answers.uncertainty

    @torch.no_grad()
    def embed(self, x: Any, progress: Progress = no_progress) -> np.ndarray:
        """Computes the features before the network's head.

        Args:
            x: One sample or several.
            progress: Shows how far it is.

        Returns:
            Features (n, d); of one sample, (d,).
        """
        given = collect(x, self.description.samples)
        features: Callable[[Tensor], Tensor] = self.module.features  # type: ignore[assignment]
        parts = [_numpy(features(inputs)) for inputs in self._inputs(given.samples, progress)]
        found = np.concatenate(parts) if parts else np.empty((0, 0), dtype=np.float32)
        return found[0] if given.single else found

    def answer(
        self, samples: Sequence[Any], *, measure: bool = True, progress: Progress = no_progress
    ) -> Answers:
        """Answers several samples at once: probabilities and uncertainty.

        Args:
            samples: The samples, in any of the forms that `predict` takes.
            measure: Whether uncertainty is measured too, which takes several times as long.
            progress: Shows how far it is.
        """
        return self._ask(samples, progress, measure)[0]

    def answer_prepared(self, inputs: Tensor, *, measure: bool = True) -> Answers:
        """Answers samples that are prepared already.

        Args:
            inputs: The network's inputs (n, …).
            measure: Whether uncertainty is measured too.
        """
        parts = torch.split(inputs, forward_size(self.device))
        return joined_answers(
            [self._answer_batch(part, measure) for part in parts], len(self.labels)
        )

    def _answer_batch(self, inputs: Tensor, measure: bool) -> Answers:
        """Answers one batch of prepared samples."""
        probabilities = _numpy(self.logits(inputs).softmax(1))
        unsure = self._measure(inputs) if measure else np.empty(0, dtype=np.float32)
        return Answers(probabilities, unsure)

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Tensor:
        """Computes the logits (n, classes) of prepared samples, without outputs that have no label.

        Args:
            inputs: The network's inputs (n, …), on its device.
        """
        logits: Tensor = self.module(inputs)[:, : len(self.labels)]
        return logits

    def _ask(self, x: Any, progress: Progress, measure: bool) -> tuple[Answers, bool]:
        """Answers samples, in batches; says also whether it was one sample."""
        given = collect(x, self.description.samples)
        batches = self._inputs(given.samples, progress)
        parts = [self._answer_batch(inputs, measure) for inputs in batches]
        return joined_answers(parts, len(self.labels)), given.single

    def _inputs(self, samples: Sequence[Any], progress: Progress) -> Iterator[Tensor]:
        """Yields the network's inputs, batch by batch: only one batch is decoded at a time."""
        size = forward_size(self.device)
        starts = range(0, len(samples), size)
        for start in progress(starts, f"predicting {len(samples)} samples"):
            yield self.prepare(samples[start : start + size])

    def prepare(self, samples: Sequence[Any]) -> Tensor:
        """Turns samples into the network's inputs (n, …), on its device.

        Args:
            samples: Samples as `given_samples.collect` lists them.
        """
        form = self.description.samples
        decoded = decode(samples, form, self._resize)
        if isinstance(form, TextForm):
            return torch.from_numpy(self._vectors(decoded, form)).to(self.device)
        if isinstance(form, ImageForm) and form.embedder is not None:
            vectors = self._features(decoded, form.embedder)
            if form.feature_mean:
                scaling = Standardisation(np.array(form.feature_mean), np.array(form.feature_scale))
                vectors = scaling(vectors)
            return torch.from_numpy(vectors).to(self.device)
        if isinstance(form, ImageForm):
            images = torch.from_numpy(np.ascontiguousarray(decoded)).to(self.device)
            mean, std = (torch.tensor(v, device=self.device).view(-1, 1, 1)
                         for v in (form.mean, form.std))  # fmt: skip
            return (images.float() / 255 - mean) / std
        if isinstance(form, TableForm) and form.codes:
            standardise = Standardisation(np.array(form.mean), np.array(form.scale))
            decoded = np.nan_to_num(TableCode(form.codes, standardise)(decoded))
        elif form.mean:
            standardise = Standardisation(np.array(form.mean), np.array(form.scale))
            decoded = np.nan_to_num(standardise(decoded))
        return torch.from_numpy(decoded.astype(np.float32)).to(self.device)

    def _vectors(self, texts: list[str], form: TextForm) -> np.ndarray:
        """Embeds texts by the embedder that the model was learned with, or makes token ids."""
        if form.as_tokens:
            self._tokeniser(form)
            return tokenise(texts, *self._token_names(form), length=form.length)
        embedder = self._embedder(form)
        if self._texts.cache is not None:
            return embed(texts, embedder, self._texts.cache)
        self._encode = self._encode or load_encoder(embedder)
        return self._encode([embedder.prefix + text for text in texts])

    def _tokeniser(self, form: TextForm) -> Tokeniser:
        """Finds the tokeniser that the model was learned with.

        Raises:
            OfclError: If the one that is here makes other token ids.
        """
        name, folder = self._token_names(form)
        found = find_tokeniser(name, folder)
        if found.checksum != form.embedder.version:
            raise OfclError(
                f"the tokeniser of '{name}' is not the one that this model was learned with; say "
                "where that one is, with --embedder"
            )
        return found

    def _token_names(self, form: TextForm) -> tuple[str, str | None]:
        """Returns the name of the network whose tokeniser is used, and its folder if known."""
        if self._texts.embedder is not None:
            return self._texts.embedder, None
        return form.embedder.model, known_folder(form.embedder.model, form.embedder.version)

    def _features(self, images: np.ndarray, wanted: ImageEmbedder) -> np.ndarray:
        """Embeds images by the embedder that the model was learned with.

        Raises:
            OfclError: If it has to be named, or is another one than the model was learned with.
        """
        if self._texts.embedder is None and wanted.name != LITE0:
            raise OfclError(
                f"this model was learned with the embedder '{wanted.name}'; if you have it and "
                "trust it, give its name with --embedder"
            )
        found = find_image_embedder(self._texts.embedder or wanted.name)
        if difference := found.differs(wanted):
            raise OfclError(
                f"the embedder '{found.name}' is not the one that this model was learned with, "
                f"'{wanted.name}': {difference}"
            )
        if self._texts.cache is not None:
            return embed_images(images, found, self._texts.cache)
        return encode_images(load_image_embedder(found.name), images)

    def _embedder(self, form: TextForm) -> Embedder:
        """Finds the embedder; one that is not well known is used only if the user names it.

        Raises:
            OfclError: If it has to be named, or is another one than the model was learned with.
        """
        wanted = form.embedder
        known = {embedder.model for embedder in EMBEDDERS.values()}
        if self._texts.embedder is None and wanted.model not in known:
            raise OfclError(
                f"this model was learned with the embedder '{wanted.model}'; if you have it and "
                "trust it, give its name or folder with --embedder"
            )
        found = find_embedder(self._texts.embedder or wanted.model)
        if (found.version != wanted.version and wanted.version) or found.tokens != wanted.tokens:
            raise OfclError(
                f"the embedder '{found.model}' has version {found.version or '(none)'}; this model "
                f"was learned with '{wanted.model}', version {wanted.version}. Install that one"
            )
        return found

    @torch.no_grad()
    def _measure(self, inputs: Tensor) -> np.ndarray:
        """Measures the Bregman information (n,) of prepared samples."""
        perturb = self._perturbation()
        one = perturb.draw(torch.Size([1, *inputs.shape[1:]]), generator(0, "uncertainty"))
        draws = one.expand(one.shape[0], len(inputs), *one.shape[2:]).to(self.device)
        views = perturb.apply(inputs, draws)
        classes = len(self.labels)
        return _numpy(
            uncertainty(self.module, views, lambda z: bregman_information(z[..., :classes]))
        )

    def _perturbation(self) -> Perturbation:
        """Makes the perturbation by which uncertainty is measured."""
        form, how = self.description.samples, self.description.uncertainty
        if isinstance(form, TextForm) and form.as_tokens:
            known = self._tokeniser(form)
            return MaskedCopies(how.noise_std, how.noise_copies, known.mask, known.padding)
        if not isinstance(form, ImageForm) or not how.perturbations:
            return NoisyCopies(how.noise_std, how.noise_copies)
        return ImageViews(
            how.perturbations, form.mean, form.std, "batch", how.pixels, how.interpolation
        )


def _numpy(values: Tensor) -> np.ndarray:
    found: np.ndarray = values.detach().float().cpu().numpy()
    return found


def joined_answers(parts: list[Answers], classes: int) -> Answers:
    """Puts the answers to several batches together.

    Args:
        parts: The answers to each batch; if there is none, the result has no samples.
        classes: The number of classes.
    """
    if not parts:
        return Answers(np.empty((0, classes), dtype=np.float32), np.empty(0, dtype=np.float32))
    return Answers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
