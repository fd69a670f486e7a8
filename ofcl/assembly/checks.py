"""What cannot work with these data is refused before anything is learned; what is odd is told."""

from __future__ import annotations

from ofcl.assembly.build import build_schedule, task_lengths
from ofcl.data.dataset import Dataset
from ofcl.data.scenario import Share
from ofcl.errors import OfclError
from ofcl.methods import METHODS
from ofcl.models import ACGAN_NAME
from ofcl.settings.schema import Settings

SMALLEST_SIDE = 8  # of an image that slim-resnet18 takes


def check(settings: Settings, dataset: Dataset, shares: list[Share]) -> list[str]:
    """Refuses what cannot work with this data; gives what is odd but can, as warnings."""
    classes = len({c for share in shares for task in share.tasks for c in task})
    remembers = METHODS[settings.method].policy is not None
    if remembers and settings.memory < classes:
        raise OfclError(
            f"memory = {settings.memory} is smaller than the number of classes ({classes}); "
            f"every class needs at least one place: set memory to {classes} or more"
        )
    check_model(settings, dataset)
    if METHODS[settings.method].generative is not None:
        check_generative(settings, dataset)
    warnings = []
    if _noisy_statistics(settings):
        warnings.append(
            "dp_noise also falls on the statistics of BatchNorm, which are small and suffer most; "
            "batchnorm = 'local' keeps them at each client"
        )
    if settings.clients < settings.min_clients:
        warnings.append(f"no round will happen: {settings.clients} client is not a federation")
    elif METHODS[settings.method].generative is None:  # those end every task with a round
        warnings += _tasks_without_rounds(settings, shares)
    if settings.loss == "ace" and settings.replay == "past" and remembers:
        warnings.append(
            "loss = 'ace' without replay = 'all': the newest classes are never told from old ones"
        )
    return warnings


def check_model(settings: Settings, dataset: Dataset) -> None:
    """Refuses a model that cannot take samples of this form."""
    if settings.model == ACGAN_NAME and settings.method != "fedcil":
        raise OfclError("the model acgan is for the method fedcil")
    if settings.model != "slim-resnet18":
        return
    if dataset.kind != "image":
        raise OfclError(f"slim-resnet18 needs images; '{dataset.name}' has vectors: use mlp")
    if min(dataset.shape[1:]) < SMALLEST_SIDE:
        raise OfclError(
            f"slim-resnet18 needs images of at least {SMALLEST_SIDE} × {SMALLEST_SIDE} pixels; "
            f"'{dataset.name}' has {dataset.shape[1]} × {dataset.shape[2]}: use mlp"
        )


def check_elsewhere(settings: Settings, streams: bool) -> None:
    """Refuses what clients in other processes cannot do."""
    if streams or settings.streams:
        raise OfclError(f"streams are learned here, with engine = 'local'; not {settings.engine}")
    if settings.stagger:
        raise OfclError(f"stagger is for engine = 'local'; not for {settings.engine}")


def check_generative(settings: Settings, dataset: Dataset) -> None:
    """Refuses what a generative method cannot do."""
    name, method = settings.method, METHODS[settings.method].generative
    assert method is not None
    if settings.dp_clip is not None:
        raise OfclError(
            f"{name} sends more than the model, without noise; a method with a memory can be "
            "private (dp_clip)"
        )
    if dataset.kind != "image":
        raise OfclError(
            f"{name} makes images, its generator is tailored to them; '{dataset.name}' has "
            "vectors: use a memory method, for example bi"
        )
    if (wanted := method.refuses(dataset.shape)) is not None:
        shape = " × ".join(map(str, dataset.shape))
        raise OfclError(f"{name} needs {wanted}; '{dataset.name}' has {shape}")
    if settings.batchnorm != "average":
        raise OfclError(
            f"{name} needs the averaged BatchNorm statistics, which batchnorm = "
            f"'{settings.batchnorm}' (protocol '{settings.protocol}') does not give: "
            "--set batchnorm=average"
        )
    if method.model is not None and settings.model != method.model:
        raise OfclError(f"{name} has a model of its own; leave model = 'auto'")
    if settings.clients < settings.min_clients:
        raise OfclError(
            f"{name} needs rounds, and these at least {settings.min_clients} clients (min_clients)"
        )
    if settings.loss != "ce" or settings.test_first:
        ignored = "loss" if settings.loss != "ce" else "test_first"
        raise OfclError(f"{ignored} is for methods with a memory; with {name} it would do nothing")
    if settings.stagger:
        raise OfclError(f"{name} ends tasks for all clients together; stagger cannot be used")


def _noisy_statistics(settings: Settings) -> bool:
    noisy = settings.dp_clip is not None and settings.dp_noise > 0
    return noisy and settings.model == "slim-resnet18" and settings.batchnorm == "average"


def _tasks_without_rounds(settings: Settings, shares: list[Share]) -> list[str]:
    schedule = build_schedule(settings)
    longest = [max(lengths) for lengths in zip(*(task_lengths(settings, s) for s in shares),
                                               strict=True)]  # fmt: skip
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
