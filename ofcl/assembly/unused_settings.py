"""Settings that somebody gave and that do nothing in a run: they are pointed out, never refused."""

from __future__ import annotations

from typing import Literal

from ofcl.assembly.chosen_method import chosen_method
from ofcl.data.files.image_embedders import embeds_images
from ofcl.settings.rules import given
from ofcl.settings.schema import Settings


def find_unused(asked: Settings, settings: Settings, kind: Literal["image", "vector"]) -> list[str]:
    """Lists warnings, in words, about settings that were given and have no effect.

    Args:
        asked: The run's settings as somebody gave them.
        settings: The run's settings, resolved for the data.
        kind: The kind of the samples.
    """
    there = given(asked)
    return [
        f"{name} does nothing here: it is for {wanted}"
        for wanted, (acts, names) in _conditions(settings, kind).items()
        if not acts
        for name in names
        if name in there
    ]


def _conditions(
    settings: Settings, kind: Literal["image", "vector"]
) -> dict[str, tuple[bool, tuple[str, ...]]]:
    """Lists what settings are for: in words, whether it is so here, and the settings' names."""
    method, rule = chosen_method(settings), settings.aggregation
    return {
        "split = 'dirichlet'": (settings.split == "dirichlet", ("alpha",)),
        "aggregation = 'fedprox'": (rule == "fedprox", ("mu", "proximal")),
        "aggregation = 'trimmed-mean'": (rule == "trimmed-mean", ("trim",)),
        "aggregation = 'krum'": (rule == "krum", ("bad_clients",)),
        "aggregation = 'weighted'": (
            rule == "weighted", ("nested_average", "class_weights", "class_counts"),
        ),
        "methods that score, for example bi": (method.score is not None, ("keep",)),
        "keep = 'weighted'": (settings.keep == "weighted", ("keep_beta",)),
        "methods with a memory, for example cbr": (
            method.policy is not None, ("memory", "memory_age", "memory_days", "replay_ratio"),
        ),
        "vectors": (kind == "vector", ("noise_std", "noise_copies")),
        "images": (kind == "image", ("pixels", "interpolation")),
        "images, and embedders of images": (
            kind == "image" or embeds_images(settings.embedder), ("image_size",),
        ),
        "embedders of images": (embeds_images(settings.embedder), ("features",)),
        "a contrastive term (contrast above 0)": (settings.contrast > 0, ("temperature",)),
        "augment = 'noise'": (settings.augment == "noise", ("augment_noise",)),
        "method = 'mfcl'": (
            settings.method == "mfcl", ("synthetic", "generator_steps", "generator_labels"),
        ),
        "method = 'fedcil'": (
            settings.method == "fedcil", ("consistency", "consolidation", "gan_lr"),
        ),
    }  # fmt: skip
