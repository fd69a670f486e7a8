"""A network with the preparation of its samples inside: the graph that is exported."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ofcl.bundle.description import Description, to_json
from ofcl.bundle.trained_model import TrainedModel
from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.sample_forms import ImageForm, SampleForm, TextForm
from ofcl.data.standardisation import Standardisation
from ofcl.errors import OfclError

INPUTS = {"image": "images", "table": "rows", "vector": "vectors", "text": "vectors"}
"""The name of the exported network's input, by the kind of samples."""
OUTPUTS = ("logits", "probabilities")


class PreparedNetwork(nn.Module):
    """The network of a model, from raw samples to logits and probabilities.

    Images come as 8 bits (n, channels, height, width), rows and vectors as 64 bits (n, d), and
    texts as the vectors of their embedder, 32 bits (n, d).

    Args:
        model: The model, on the CPU; its network becomes part of this module.
    """

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        form = model.description.samples
        if isinstance(form, ImageForm) and form.embedder is not None:
            raise OfclError(
                f"this model learned from the vectors of '{form.embedder.name}', which is not part "
                "of it and cannot be exported with it; use ofcl predict, ofcl serve or --zip"
            )
        if isinstance(form, TextForm) and form.as_tokens:
            raise OfclError(
                f"this model takes the token ids that '{form.embedder.model}' makes of texts, and "
                "its tokeniser cannot be exported with it; use ofcl predict, ofcl serve or --zip"
            )
        # Weights with their channels last are a matter of speed on some machine, not of the graph.
        self.network = model.module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.prepare = Normalise(form) if isinstance(form, ImageForm) else Standardise(form)
        self._logits: Callable[[Tensor], Tensor] = model.logits  # the same that `predict` computes
        self.requires_grad_(False).eval()

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Computes logits and probabilities, both (n, labels).

        Args:
            samples: Raw samples (n, …).
        """
        logits = self._logits(self.prepare(samples))
        return logits, logits.softmax(1)


class Normalise(nn.Module):
    """Normalises images of 8 bits.

    Args:
        form: The form of the images.
    """

    def __init__(self, form: ImageForm) -> None:
        super().__init__()
        self.mean = nn.Buffer(torch.tensor(form.mean).view(-1, 1, 1))
        self.std = nn.Buffer(torch.tensor(form.std).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Returns the network's inputs.

        Args:
            images: The images (n, channels, height, width).
        """
        return (images.float() / 255 - self.mean) / self.std


class Standardise(nn.Module):
    """Standardises rows and vectors in 64 bits, as learning did; those of texts are left as is.

    Args:
        form: The form of the samples.
    """

    def __init__(self, form: SampleForm) -> None:
        super().__init__()
        mean, scale = (getattr(form, name, ()) for name in ("mean", "scale"))
        self.standardised = bool(mean)
        self.mean = nn.Buffer(torch.tensor(mean, dtype=torch.float64))
        self.scale = nn.Buffer(torch.tensor(scale, dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Returns the network's inputs.

        Args:
            rows: The rows or vectors (n, d).
        """
        if not self.standardised:
            return rows.float()
        largest = torch.finfo(torch.float32).max
        return ((rows - self.mean) / self.scale).float().clamp(-largest, largest)


def input_type(form: SampleForm) -> type[np.generic]:
    """Returns the type of the numbers that the exported network takes.

    Args:
        form: The form of the samples.
    """
    if isinstance(form, ImageForm):
        return np.uint8
    return np.float32 if isinstance(form, TextForm) else np.float64


def made_up_samples(form: SampleForm, count: int) -> np.ndarray:
    """Draws raw samples of a form, to compare an exported network with the model on them.

    Args:
        form: The form of the samples.
        count: The number of samples.
    """
    draw = np.random.default_rng(count)
    if isinstance(form, ImageForm):
        return draw.integers(0, 256, (count, *form.shape), dtype=np.uint8)
    rows = draw.normal(size=(count, *form.shape))
    if mean := getattr(form, "mean", ()):
        rows = np.array(mean) + rows * np.array(getattr(form, "scale", 1.0))
    return rows.astype(input_type(form))


class Expected(NamedTuple):
    """The answers of a model, with which those of an exported file are compared.

    Args:
        logits: The logits (n, labels).
        probabilities: The probabilities (n, labels).
    """

    logits: np.ndarray
    probabilities: np.ndarray


def expected_answers(model: TrainedModel, samples: np.ndarray) -> Expected:
    """Computes what the exported network must answer, by the functions that `predict` uses.

    Args:
        model: The model, on the CPU.
        samples: Raw samples (n, …).
    """
    form = model.description.samples
    if isinstance(form, ImageForm):
        inputs = model.prepare(samples)  # type: ignore[arg-type]
    else:
        if mean := getattr(form, "mean", ()):
            standardise = Standardisation(np.array(mean), np.array(getattr(form, "scale", ())))
            samples = np.nan_to_num(standardise(samples))
        inputs = torch.from_numpy(samples).float()
    answers = model.answer_prepared(inputs, measure=False)
    return Expected(model.logits(inputs).numpy(), answers.probabilities)


def facts(description: Description) -> dict[str, str]:
    """Returns what one must know to use the exported file alone, as texts by name.

    Args:
        description: The description of the model.
    """
    form = description.samples
    found = {
        "labels": json.dumps(description.labels),
        "kind": form.kind,
        "input": INPUTS[form.kind],
        "preparation": _preparation(form),
        "model.json": to_json(description),
    }
    if form.kind == "table":
        found["columns"] = json.dumps(form.columns)
        names = [name for code in form.codes for name in _numbers(code)]
        found["numbers"] = json.dumps(names or form.columns)
    return found


def _numbers(code: ColumnCode) -> list[str]:
    """Names the numbers that a cell of a column becomes, in their order (`ColumnCode.encode`)."""
    match code.kind:
        case "category":
            parts = [f" = {category}" for category in code.categories] + [" = another"]
        case "date":
            parts = [" in days since 1970" if "year" in code.cycles else ", part of the day"]
            turns = ("sine", "cosine")
            parts += [f", {turn} of the {cycle}" for cycle in code.cycles for turn in turns]
        case _:
            parts = [""]
    return [code.name + part for part in [*parts, *([" is empty"] if code.gaps else [])]]


def _preparation(form: SampleForm) -> str:
    """Says in words how a sample becomes the input, and what the graph does itself."""
    match form.kind:
        case "image":
            channels, height, width = form.shape
            mode = "grey (Pillow's mode L)" if channels == 1 else "RGB"
            return (
                f"Images of 8 bits (n, {channels}, {height}, {width}), upright, {mode}; files of "
                "another size are resized by Pillow's default, grey ones of more than 8 bits are "
                "scaled by 'white' in model.json first. Normalisation is inside."
            )
        case "table":
            if form.codes:
                return (
                    "The numbers that 'numbers' lists; cells become them by 'samples.codes' in "
                    "model.json. Standardisation is inside."
                )
            return "Numbers in the order of 'columns'. Standardisation is inside."
        case "vector":
            return f"Vectors of {form.length} numbers. Standardisation, if there is any, is inside."
        case "text":
            embedder = form.embedder
            return (
                f"Vectors of {form.length} numbers by the embedder '{embedder.model}', version "
                f"'{embedder.version}', of texts that begin with '{embedder.prefix}'. The embedder "
                "is not inside."
            )
