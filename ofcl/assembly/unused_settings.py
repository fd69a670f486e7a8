"""Settings that somebody gave and that do nothing in a run: they are pointed out, never refused."""

from __future__ import annotations

from ofcl.assembly.chosen_method import chosen_method
from ofcl.data.dataset import Kind
from ofcl.data.files.image_embedders import embeds_images
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
            rule == "weighted", ("nested_average", "class_weights"),
        ),
        "aggregation = 'weighted', or method = 'fedcbdr'": (
            rule == "weighted" or settings.method == "fedcbdr", ("class_counts",),
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
        "pretrained models, for example efficientnet-lite0": (
            is_backbone(settings.model), ("tune", "backbone_side", "weights", "recompute"),
        ),
        "tune = 'lora'": (settings.tune == "lora", ("lora_rank",)),
        "images": (kind == "image", ("pixels", "interpolation")),
        "images, and embedders of images": (
            kind == "image" or embeds_images(settings.embedder), ("image_size",),
        ),
        "embedders of images": (embeds_images(settings.embedder), ("features",)),
        "a contrastive term (contrast above 0)": (
            settings.contrast > 0 or settings.method == "scr", ("temperature",),
        ),
        "augment = 'noise'": (settings.augment == "noise", ("augment_noise",)),
        "methods without a loss of their own": (
            settings.method not in ("fedcbdr", "glfc"), ("loss", "contrast", "distil"),
        ),
        "method = 'der'": (settings.method == "der", ("der_alpha", "der_beta")),
        "method = 'mir'": (settings.method == "mir", ("mir_candidates",)),
        "method = 'gdumb'": (settings.method == "gdumb", ("fitting_epochs",)),
        "method = 'lwf'": (settings.method == "lwf", ("lwf_weight",)),
        "method = 'ewc'": (settings.method == "ewc", ("ewc_weight",)),
        "methods lwf, icarl and ewc": (settings.method in ("lwf", "icarl", "ewc"), ("moment",)),
        "method = 'mfcl' or 'target'": (
            settings.method in ("mfcl", "target"), ("synthetic", "generator_steps"),
        ),
        "method = 'mfcl'": (settings.method == "mfcl", ("generator_labels",)),
        "method = 'target'": (settings.method == "target", ("target_kd",)),
        "method = 'refed'": (settings.method == "refed", ("refed_steps", "refed_lambda")),
        "method = 'fedcbdr'": (
            settings.method == "fedcbdr", ("tau_old", "tau_new", "omega_old", "omega_new"),
        ),
        "method = 'glfc'": (settings.method == "glfc", ("glfc_rise",)),
        "method = 'fedcil'": (
            settings.method == "fedcil", ("consistency", "consolidation", "gan_lr"),
        ),
    }  # fmt: skip
