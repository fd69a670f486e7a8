"""Settings that somebody gave and that do nothing in a run: they are pointed out, never refused."""

from __future__ import annotations

from ofcl.assembly.chosen_method import chosen_method
from ofcl.data.dataset import Kind
from ofcl.pretrained.backbone_names import is_backbone
from ofcl.settings.rules import given
from ofcl.settings.schema import Settings


def find_unused(asked: Settings, settings: Settings, kind: Kind) -> list[str]:
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


def _conditions(settings: Settings, kind: Kind) -> dict[str, tuple[bool, tuple[str, ...]]]:
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
        "vectors": (kind == "vector", ("noise_std",)),
        "vectors and token ids": (kind != "image", ("noise_copies",)),
        "token ids (a pretrained model of texts)": (
            kind == "tokens", ("tokens", "hidden_tokens"),
        ),
        "images": (kind == "image", ("pixels", "interpolation", "image_size")),
        "a contrastive term (contrast above 0)": (settings.contrast > 0, ("temperature",)),
        "augment = 'noise'": (settings.augment == "noise", ("augment_noise",)),
        "pretrained models, for example efficientnet-lite0": (
            is_backbone(settings.model), ("tune", "backbone_side", "weights", "recompute"),
        ),
        "tune = 'lora'": (settings.tune == "lora", ("lora_rank",)),
        "method = 'mfcl'": (
            settings.method == "mfcl", ("synthetic", "generator_steps", "generator_labels"),
        ),
        "method = 'fedcil'": (
            settings.method == "fedcil", ("consistency", "consolidation", "gan_lr"),
        ),
    }  # fmt: skip
