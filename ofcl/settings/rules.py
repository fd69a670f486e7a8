"""Rules between settings: values that exclude each other, or of which one would have no effect."""

from __future__ import annotations

from typing import Any

from ofcl.errors import OfclError
from ofcl.settings.files import preset
from ofcl.settings.schema import Settings

AT_PARTY = (
    "dataset", "data_root", "label", "text", "columns", "drop", "image_size", "embedder",
    "test_share", "window", "on_bad", "train_head", "test_head", "train_per_class",
    "test_per_class", "streams", "task", "test", "idle", "device", "threads", "allow", "weights",
    "tokens",
)  # fmt: skip
"""Settings that each party of a federation decides for itself: the server never sends them."""

STREAMS_ONLY = ("task", "test", "idle")
DATASETS_ONLY = (
    "dataset", "tasks", "limit", "class_order", "task_order", "drop_class", "split", "blurry",
    "imbalance", "joint", "label_noise", "input_noise",
)  # fmt: skip


def check_noise(settings: Settings) -> None:
    """Raises an error if settings of differential privacy would have no effect.

    This is checked when a run begins, not in `check_combination`: runs of older versions may have
    such settings, and must still be readable.

    Args:
        settings: The run's settings.
    """
    for name in ("dp_noise", "dp_delta"):
        if settings.dp_clip is None and getattr(settings, name) != _default(name):
            raise OfclError(f"{name} would do nothing without dp_clip, how far an update may go")


SUMS_ALONE = ("fedavg", "fedprox")
"""Aggregations that need the sum of the updates alone."""

SUMMED = ("none", "int8")
"""Ways to code models that can be added up."""


def check_secure_aggregation(settings: Settings) -> None:
    """Raises an error if secure aggregation is asked for, and something needs single updates.

    Args:
        settings: The run's settings.
    """
    if not settings.secure_aggregation:
        return
    if settings.engine != "flower":
        reason = "is for parties of their own (ofcl federation); on one machine it hides nothing"
    elif settings.clients < 3:
        reason = f"needs three parties, not {settings.clients}: one would see the other's update"
    elif settings.aggregation not in SUMS_ALONE:
        reason = (
            f"shows the server a sum alone, and aggregation = '{settings.aggregation}' needs the "
            "single updates; use fedavg or fedprox"
        )
    elif settings.compress not in SUMMED:
        reason = (
            f"adds up masked numbers, and compress = '{settings.compress}' makes numbers that "
            "cannot be added; use compress = 'int8', whose steps all parties share, or 'none'"
        )
    elif settings.compress != "none" and settings.dp_clip is not None:
        reason = (
            "with dp_clip needs exact sums, of which the parties share the noise; use compress = "
            "'none'"
        )
    elif settings.rounds == "buffered":
        reason = "needs parties that meet in a round; use rounds = 'waiting'"
    elif settings.clip_norm is not None:
        reason = (
            "shows the server no single update that it could clip (clip_norm); dp_clip clips at "
            "the parties, with dp_noise = 0 without the noise of privacy"
        )
    elif settings.classifier == "nearest-mean":
        reason = (
            "hides single parties, whose sums of features classifier = 'nearest-mean' sends one by "
            "one; use classifier = 'head'"
        )
    elif settings.method in ("mfcl", "fedcil", "target"):
        reason = f"hides updates, and {settings.method} sends more than these; use a memory method"
    else:
        return
    raise OfclError(f"secure_aggregation {reason}")


def check_cross_site(settings: Settings) -> None:
    """Raises an error if cross-site validation is asked for, and cannot be held.

    Args:
        settings: The run's settings.
    """
    if not settings.cross_site:
        return
    if settings.engine != "flower":
        reason = "is for parties of their own (ofcl federation); on one machine, ofcl evaluate"
    elif settings.secure_aggregation:
        reason = (
            "shows the models of single parties, which secure_aggregation hides; leave one of the "
            "two out"
        )
    elif settings.dp_clip is not None:
        reason = (
            "hands the model of each party to the others: with the noise of dp_clip it says little "
            "about the party, without noise it would undo the protection; leave one of the two out"
        )
    elif settings.classifier == "nearest-mean":
        reason = (
            "tests models alone, and classifier = 'nearest-mean' predicts by prototypes of a "
            "party's own memory; use classifier = 'head'"
        )
    elif settings.batchnorm != "average":
        reason = (
            f"needs whole models, and batchnorm = '{settings.batchnorm}' keeps each party's "
            "statistics back; use batchnorm = 'average'"
        )
    elif settings.closing_round == "none":
        reason = (
            "tests the models that parties send when their data have ended, and with "
            f"closing_round = 'none' (protocol '{settings.protocol}') they send none then: --set "
            "closing_round=end"
        )
    else:
        return
    raise OfclError(f"cross_site {reason}")


def check_combination(settings: Settings) -> None:
    """Raises an error if values exclude each other, or one of them would have no effect.

    Args:
        settings: The run's settings.
    """
    if settings.scoring_model == "current" and settings.rescore != "every-batch":
        raise OfclError(
            "scoring_model = 'current' changes with every mini-batch, so a score cannot be kept "
            "until the next round; set rescore = 'every-batch', or scoring_model = 'after-round'"
        )
    clients = len(settings.streams) or settings.clients
    if clients > 1 and settings.min_clients > clients:
        raise OfclError(
            f"min_clients = {settings.min_clients} of {clients} clients: no round could "
            "ever happen; lower min_clients or add clients"
        )
    others = given(settings)
    _check_rounds(settings, clients, others)
    if not settings.streams:
        if settings.on_bad == "wait":
            raise OfclError("on_bad = 'wait' is for watched folders; use 'stop' or 'skip'")
        if unused := [name for name in STREAMS_ONLY if name in others]:
            raise OfclError(f"{unused[0]} is for streams; without --stream it would do nothing")
        return
    if unused := [name for name in DATASETS_ONLY if name in others]:
        raise OfclError(f"{unused[0]} is for datasets; with --stream it would do nothing")
    if settings.clients not in (clients, _default("clients")):
        raise OfclError(f"{clients} streams are {clients} clients, not {settings.clients}")


def _check_rounds(settings: Settings, clients: int, others: set[str]) -> None:
    """Raises an error if the settings of buffered rounds exclude others, or would do nothing."""
    if settings.rounds == "waiting":
        if unused := sorted(others & {"buffer", "age_power", "speeds"}):
            raise OfclError(f"{unused[0]} is for rounds = 'buffered'; it would do nothing")
        return
    if clients > 1 and settings.buffer > clients:
        raise OfclError(
            f"buffer = {settings.buffer} of {clients} clients: an update would wait for the next "
            "one of its own client; lower buffer"
        )
    if settings.speeds and (len(settings.speeds) != clients or min(settings.speeds) <= 0):
        raise OfclError(
            f"speeds has {len(settings.speeds)} numbers; expected {clients}, one above 0 for each "
            "client"
        )
    if settings.speeds and settings.engine != "local":
        raise OfclError(
            "speeds are simulated with engine = 'local'; clients elsewhere have their own speeds"
        )
    if settings.round_timeout is not None:
        raise OfclError(
            "round_timeout is for rounds = 'waiting'; with rounds = 'buffered' nobody is waited for"
        )
    if settings.participation < 1 or settings.dropout or settings.stagger:
        raise OfclError(
            "participation, dropout and stagger are for rounds = 'waiting'; with rounds = "
            "'buffered' every client takes part when it arrives: speeds makes some of them slow"
        )


def given(settings: Settings) -> set[str]:
    """Names the settings with a value that is neither the default nor the protocol's.

    Args:
        settings: The settings.
    """
    of_protocol = preset(settings.protocol)
    return {
        name
        for name in Settings.model_fields
        if getattr(settings, name) not in (_default(name), of_protocol.get(name, _default(name)))
    }


def _default(name: str) -> Any:
    """Gives the default of a setting."""
    return Settings.model_fields[name].default
