"""Settings in which nothing is left open: dataset, tasks, model, learning rate, device."""

from __future__ import annotations

import torch

from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.fitting import fit
from ofcl.data.dataset import Dataset
from ofcl.data.tasks import usual_tasks
from ofcl.errors import OfclError
from ofcl.models.backbone import check_weights, find_checksum
from ofcl.pretrained.backbone_names import is_backbone, parse_backbone
from ofcl.settings.schema import Settings
from ofcl.uncertainty.perturbations import choose_perturbations

DEVICES = "auto, cpu, cuda, cuda:N or mps"


def resolve(settings: Settings, dataset: Dataset) -> Settings:
    """Fills in all settings that depend on the data or on this machine, such as `auto`.

    Args:
        settings: The settings as somebody gave them.
        dataset: The run's data; of streams, a dataset without samples that has their form.
    """
    settings = fit(settings.model_copy(update={"tasks": _tasks(settings, dataset)}), dataset)
    model = _model(settings, dataset)
    optimizer = settings.optimizer
    if optimizer == "auto":
        optimizer = "sgd" if model == "slim-resnet18" else "adam"
    rate = settings.sgd_lr if optimizer == "sgd" else settings.adam_lr
    resolved = {
        "dataset": settings.dataset if settings.streams else dataset.source or dataset.name,
        "model": model,
        "optimizer": optimizer,
        "lr": settings.lr or rate,
        "device": str(find_device(settings.device)),
        "threads": settings.threads or (1 if model == "mlp" else None),
        "perturbations": choose_perturbations(settings.perturbations),
        "closing_round": _closing_round(settings),
        "backbone": _backbone(settings, model),
    }
    return settings.model_copy(update=resolved)


def _backbone(settings: Settings, model: str) -> str | None:
    """Returns the checksum of a pretrained model's weights; None: the model is not pretrained.

    Args:
        settings: The run's settings. If they have a checksum, it must be that of the weights here.
        model: The name of the model.
    """
    if not is_backbone(model):
        return None
    found = find_checksum(model, settings.weights)
    if settings.backbone is not None:
        check_weights(parse_backbone(model).name, found, settings.backbone)
    return found


def resolve_alone(settings: Settings) -> Settings:
    """Lets a single client hold rounds alone, so that the global model is a copy of its own.

    Settings of several clients, and of the protocol `published`, come back unchanged.

    Args:
        settings: The settings of a run that no other party takes part in, resolved.
    """
    if settings.clients > 1 or settings.protocol == "published":
        return settings
    closing = "end" if settings.streams else "task"
    alone = {"min_clients": 1, "previous": 0.0, "closing_round": closing}
    return settings.model_copy(update=alone)


def _closing_round(settings: Settings) -> str:
    """Returns the value of `closing_round` that can be followed.

    A round at the end of each task becomes one at the end of the run where clients do not go from
    task to task together: with streams, with `stagger`, between parties.

    Args:
        settings: The run's settings.
    """
    apart = settings.streams or settings.stagger or settings.engine == "flower"
    by_themselves = apart or settings.rounds == "buffered"
    return "end" if settings.closing_round == "task" and by_themselves else settings.closing_round


def _model(settings: Settings, dataset: Dataset) -> str:
    """Returns the name of the model; `auto`: the method's own, or by the kind of the data.

    Args:
        settings: The run's settings.
        dataset: The run's data, or a dataset without samples that has their form.
    """
    if settings.model != "auto":
        return settings.model
    generative = chosen_method(settings).generative
    if generative is not None and generative.model is not None:
        return generative.model
    return "slim-resnet18" if dataset.kind == "image" else "mlp"


def _tasks(settings: Settings, dataset: Dataset) -> int:
    """Returns the number of tasks; if nobody gave it, fewer for data with few classes.

    Args:
        settings: The run's settings.
        dataset: The run's data.
    """
    if settings.streams or "tasks" in settings.model_fields_set:
        return settings.tasks
    return min(settings.tasks, usual_tasks(len(set(dataset.y_train.tolist()))))


def find_device(name: str) -> torch.device:
    """Finds the device that a name stands for.

    Args:
        name: `cpu`, `cuda`, `cuda:N`, `mps` (an Apple GPU), or `auto`: a CUDA device if there is
            one, else the CPU. `auto` never stands for `mps`, on which nothing was measured.

    Raises:
        OfclError: If this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OfclError(f"unknown device '{name}'; expected {DEVICES}") from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise OfclError(f"device '{name}' is not supported; use {DEVICES}")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise OfclError(f"device '{name}' is not there; it is the GPU of a Mac with Apple silicon "
                        "and macOS 12.3 or later. Use --device cpu")  # fmt: skip
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise OfclError(f"device '{name}' is not there; this machine has "
                        f"{torch.cuda.device_count()} CUDA devices. Use --device cpu")  # fmt: skip
    return device
