"""Answers of the service as JSON."""

from __future__ import annotations

import json
import math
from pathlib import PurePath
from typing import Any

import numpy as np

from ofcl.bundle.description import Description, to_json
from ofcl.bundle.trained_model import Answers

PRIVATE = ("settings", "fingerprint")
"""What `/model` keeps back of how a model was learned."""


def answers_as_json(answers: Answers, labels: tuple[str, ...], top: int) -> bytes:
    """Writes answers as a JSON list of `{label, probability, uncertainty, top}`.

    Args:
        answers: The answers.
        labels: The labels of the classes.
        top: How many of the likeliest labels are listed.
    """
    order = np.argsort(-answers.probabilities, axis=1, kind="stable")[:, : max(top, 1)]
    rows = []
    for place, (classes, probabilities) in enumerate(
        zip(order.tolist(), answers.probabilities, strict=True)
    ):
        listed = [
            {"label": labels[c], "probability": _number(probabilities[c])} for c in classes[:top]
        ]
        measured = len(answers.uncertainty) > 0
        rows.append({
            "label": labels[classes[0]],
            "probability": _number(probabilities[classes[0]]),
            "uncertainty": _number(answers.uncertainty[place]) if measured else None,
            "top": listed,
        })  # fmt: skip
    return json.dumps(rows, allow_nan=False).encode()


def model_facts(description: Description) -> dict[str, Any]:
    """Returns the description of a model without what it was learned from in detail.

    Args:
        description: The description.
    """
    facts: dict[str, Any] = json.loads(to_json(description))
    for name in PRIVATE:
        facts["learned"].pop(name, None)
    if embedder := facts["samples"].get("embedder"):
        name = "model" if "model" in embedder else "name"  # of texts, of images
        path = PurePath(embedder[name])
        embedder[name] = path.name if path.is_absolute() else embedder[name]
    return facts


def _number(value: Any) -> float | None:
    """Turns a number into one that JSON can write; None: it is not finite."""
    number = float(value)
    return number if math.isfinite(number) else None
