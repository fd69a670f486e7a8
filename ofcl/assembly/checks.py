"""Refusals: raises errors for runs that cannot work, before anything is learned; lists oddities.

Settings that contradict each other whatever the data are refused earlier (`settings/rules.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.dealing import task_lengths
from ofcl.assembly.make_client import build_schedule
from ofcl.assembly.resolve import find_device
from ofcl.data.dataset import Dataset
from ofcl.data.scenario import Share
from ofcl.errors import OfclError
from ofcl.models import ACGAN_NAME, SMALLEST_SIDE, find_model
from ofcl.pretrained.backbone_names import is_backbone, parse_backbone
from ofcl.settings.schema import Settings
from ofcl.uncertainty.scores import find_score


def check_run(settings: Settings, dataset: Dataset, classes: int = 0) -> None:
    """Raises an error if a run's model, method or memory cannot work with its data.

    Args:
        settings: The run's settings, resolved and already checked by `check_settings`.
        dataset: The run's data, or a dataset without samples that has their form.
        classes: How many classes are known to come; 0 for streams: nobody knows.
    """
    _check_model(settings, dataset)
    _check_generator(settings, dataset)
    if settings.classifier == "nearest-mean" and settings.closing_round == "none":
        raise OfclError(
            "classifier = 'nearest-mean' makes the server's prototypes when a task has ended for "
            f"all; with closing_round = 'none' (protocol '{settings.protocol}') there is no such "
            "moment: --set closing_round=task"
        )
    if chosen_method(settings).policy is not None and settings.memory < classes:
        raise OfclError(
            f"memory = {settings.memory} is smaller than the number of classes ({classes}); "
            f"every class needs at least one place: set memory to {classes} or more"
        )


def check_settings(settings: Settings) -> None:
    """Raises an error if settings cannot work whatever the data are, before any data are read.

    It refuses unknown methods, models and devices, and settings that the method or the engine
    cannot follow.

    Args:
        settings: The run's settings as somebody gave them.
    """
    chosen_method(settings)
    if settings.score is not None:
        find_score(settings.score, settings.score_average)
    if settings.model != "auto":
        find_model(settings.model)
    find_device(settings.device)
    if settings.replay_draw == "key" and chosen_method(settings).score is None:
        raise OfclError(f"replay_draw = 'key' needs a method that scores, for example bi; not "
                        f"{settings.method}")  # fmt: skip
    if settings.engine == "flower" and (settings.label_noise or settings.input_noise):
        raise OfclError("label_noise and input_noise are experiments on one machine; the data of "
                        "parties are learned as they are")  # fmt: skip
    if settings.engine != "local" and settings.start is not None:
        raise OfclError(f"start is for engine = 'local'; with {settings.engine} a run begins anew")
    if settings.engine == "flower-sim" and settings.streams:
        raise OfclError(f"streams are learned here, with engine = 'local'; not {settings.engine}")
    if settings.engine != "local" and settings.stagger:
        raise OfclError(f"stagger is for engine = 'local'; not for {settings.engine}, whose "
                        "clients come when they come")  # fmt: skip
    if settings.engine == "flower" and settings.joint:
        raise OfclError("joint is a bound to compare with, for runs on one machine; parties learn "
                        "what comes to them, in its order")  # fmt: skip
    _check_classifier(settings)
    name = settings.method
    if chosen_method(settings).server_part is None:
        return
    if settings.streams:
        raise OfclError(f"{name} needs tasks that end for all clients; streams do not")
    if settings.stagger:
        raise OfclError(f"{name} ends tasks for all clients together; stagger cannot be used")
    if settings.dp_clip is not None:
        raise OfclError(
            f"{name} sends more than the model, without noise; a method with a memory can be "
            "private (dp_clip)"
        )
    if settings.secure_aggregation:
        raise OfclError(
            f"secure_aggregation hides updates, and {name} sends more than these; use a method "
            "that sends the model alone, for example cbr"
        )
    if settings.batchnorm != "average":
        raise OfclError(
            f"{name} needs the averaged BatchNorm statistics, which batchnorm = "
            f"'{settings.batchnorm}' (protocol '{settings.protocol}') does not give: "
            "--set batchnorm=average"
        )
    if settings.clients < settings.min_clients:
        raise OfclError(
            f"{name} needs rounds, and these at least {settings.min_clients} clients (min_clients)"
        )
    if chosen_method(settings).generative is None:
        return
    if settings.loss != "ce" or settings.test_first:
        ignored = "loss" if settings.loss != "ce" else "test_first"
        raise OfclError(f"{ignored} is for methods with a memory; with {name} it would do nothing")


def _check_classifier(settings: Settings) -> None:
    """Raises an error if the settings' method cannot classify by the nearest mean."""
    if settings.classifier == "head":
        return
    if chosen_method(settings).policy is None:
        raise OfclError(
            "classifier = 'nearest-mean' needs remembered samples, of which "
            f"{settings.method} has none: use a method with a memory, for example cbr"
        )
    if settings.dp_clip is not None:
        raise OfclError(
            "classifier = 'nearest-mean' sends sums of features without noise; with dp_clip use "
            "classifier = 'head'"
        )


def _check_model(settings: Settings, dataset: Dataset) -> None:
    """Raises an error if the settings' model cannot take samples like the dataset's."""
    if settings.model == ACGAN_NAME and settings.method != "fedcil":
        raise OfclError("the model acgan is for the method fedcil")
    model = settings.model
    if is_backbone(model):
        _check_backbone(model, dataset)
    elif dataset.kind == "tokens":
        raise OfclError(
            f"{model} cannot learn from token ids; use model = minilm or hf:NAME, or another "
            "embedder for the texts"
        )
    if model not in ("slim-resnet18", "convnet"):
        return
    if dataset.kind != "image":
        raise OfclError(f"{model} needs images; '{dataset.name}' has vectors: use mlp")
    if min(dataset.shape[1:]) < SMALLEST_SIDE:
        raise OfclError(
            f"{model} needs images of at least {SMALLEST_SIDE} × {SMALLEST_SIDE} pixels; "
            f"'{dataset.name}' has {dataset.shape[1]} × {dataset.shape[2]}: use mlp"
        )


def _check_backbone(model: str, dataset: Dataset) -> None:
    """Raises an error if a pretrained model is for samples of another kind."""
    backbone = parse_backbone(model)
    wanted, name = ("image" if backbone.takes == "image" else "tokens"), dataset.name
    if dataset.kind == wanted:
        return
    if wanted == "image":
        raise OfclError(f"'{backbone.name}' needs images; '{name}' has none")
    if dataset.kind == "image":
        raise OfclError(
            f"'{backbone.name}' is a model of texts, and '{name}' has images: use "
            "efficientnet-lite0 or timm:NAME"
        )
    raise OfclError(
        f"'{backbone.name}' learns from token ids, and '{name}' has vectors; texts become token "
        f"ids by --embedder tokens:{backbone.name}"
    )


def _check_generator(settings: Settings, dataset: Dataset) -> None:
    """Raises an error if the settings' generative method cannot make samples like the dataset's.

    A method with a memory makes no samples and is never refused.
    """
    name, method = settings.method, chosen_method(settings).generative
    if method is None:
        return
    if dataset.kind != "image":
        raise OfclError(
            f"{name} makes images, its generator is tailored to them; '{dataset.name}' has "
            "vectors: use a memory method, for example bi"
        )
    if (wanted := method.refuses(dataset.shape)) is not None:
        shape = " × ".join(map(str, dataset.shape))
        raise OfclError(f"{name} needs {wanted}; '{dataset.name}' has {shape}")
    if method.model is not None and settings.model != method.model:
        raise OfclError(f"{name} has a model of its own; leave model = 'auto'")


def find_oddities(settings: Settings, shares: Sequence[Share]) -> list[str]:
    """Lists warnings, in words, about settings that work but are hardly meant.

    Args:
        settings: The run's settings, resolved.
        shares: The clients' shares of a dataset.
    """
    method, warnings = chosen_method(settings), []
    if _noisy_statistics(settings):
        warnings.append(
            "dp_noise also falls on the statistics of BatchNorm, which are small and suffer most; "
            "batchnorm = 'local' keeps them at each client"
        )
    if settings.clients < settings.min_clients:
        warnings.append(f"no round will happen: {settings.clients} client is not a federation")
    elif method.server_part is None and settings.closing_round == "none":
        warnings += _tasks_without_rounds(settings, shares)
    replays_past = settings.replay == "past" and not settings.joint
    if settings.loss == "ace" and replays_past and method.policy is not None:
        warnings.append(
            "loss = 'ace' without replay = 'all': the newest classes are never told from old ones"
        )
    return warnings


def _noisy_statistics(settings: Settings) -> bool:
    """Says whether privacy's noise is added to the statistics of BatchNorm."""
    noisy = settings.dp_clip is not None and settings.dp_noise > 0
    return noisy and settings.model == "slim-resnet18" and settings.batchnorm == "average"


def _tasks_without_rounds(settings: Settings, shares: Sequence[Share]) -> list[str]:
    """Returns a warning if some tasks are too short for a round; empty if none is.

    Args:
        settings: The run's settings, with the schedule of rounds.
        shares: The clients' shares of a dataset, from which the lengths of tasks follow.
    """
    schedule = build_schedule(settings)
    lengths_of_clients = [task_lengths(settings, share) for share in shares]
    longest = [max(lengths) for lengths in zip(*lengths_of_clients, strict=True)]
    silent = [
        task
        for task, length in enumerate(longest, 1)
        if not any(schedule.due(batches) for batches in range(length + 1))
    ]
    if not silent:
        return []
    where = "" if len(silent) == len(longest) else f" in task {', '.join(map(str, silent))}"
    most = max(longest[task - 1] for task in silent)
    return [
        f"no round will happen{where}: at most {most} mini-batches, but the first round comes "
        f"after {settings.burn_in} (burn_in) and every {settings.q} (q)"
    ]
