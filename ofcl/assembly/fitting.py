"""Settings that fit the data: the network, the recipe of learning, how often there are rounds.

A protocol lists in `fit` the settings that it leaves to the data. They are chosen here, from the
kind of the samples and from how many mini-batches a client will see; a setting that somebody gives
is never touched. The values were chosen on validation data (docs/recipe.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ofcl.assembly.chosen_method import chosen_method
from ofcl.data.dataset import Dataset
from ofcl.models import SMALLEST_SIDE
from ofcl.pretrained.backbone_names import is_backbone
from ofcl.settings.schema import Settings

MANY = 75  # mini-batches a client from which images are enough for a ResNet and augmentation
LARGE = 16  # the side from which they are large enough for both
GRADIENT_STEPS = 250  # that a client should take in all; a short stream takes more a mini-batch
FEWEST_STEPS, MOST_STEPS = 3, 10
ROUNDS_A_TASK = 5  # at least, where tasks are long enough
MOST_BETWEEN_ROUNDS = 5  # mini-batches
WELL_REMEMBERED = 50  # samples of a class in a memory from which Adam forgets no more than SGD
TUNED_LR = {"head": 0.01, "lora": 0.003, "last": 0.001, "all": 0.0003}  # of Adam, by `tune`
FEW_TASKS = 3  # up to which cross-entropy learns a class that is alone in its task better
SHORT_TASK = 3  # mini-batches; a shorter task is over before its samples are replayed


@dataclass(frozen=True)
class Extent:
    """The amount of data that a client will see, as a mean over the clients; the same for any seed.

    Args:
        samples: The samples of a client.
        batches: The mini-batches of a client.
        task: The mini-batches of one task of a client.
    """

    samples: float
    batches: float
    task: float


def fit(settings: Settings, dataset: Dataset) -> Settings:
    """Chooses the settings that the protocol leaves to the data.

    Args:
        settings: The settings as somebody gave them, with the number of tasks filled in.
        dataset: The run's data; of streams and parties, a dataset without samples that has their
            form.

    Returns:
        Settings in which nothing is left to the data.
    """
    if not settings.fit:
        return settings
    values = _values(settings, dataset, _extent(settings, dataset))
    chosen = {name: value for name, value in values.items() if name in settings.fit}
    return settings.model_copy(update={**chosen, "fit": ()})


def describe_fit(asked: Settings, fitted: Settings) -> str:
    """Lists in one line the main settings that `fit` has chosen; empty if it had none to choose.

    Args:
        asked: The settings before `fit`.
        fitted: The settings after it.
    """
    shown = [name for name in ("model", "steps", "q", "loss", "augment") if name in asked.fit]
    return ", ".join(f"{name} = {getattr(fitted, name)}" for name in shown)


def _extent(settings: Settings, dataset: Dataset) -> Extent | None:
    """Measures how much each client will see; None for streams and parties: nobody knows.

    Args:
        settings: The run's settings, with the number of tasks filled in.
        dataset: The run's data; without samples for streams and parties.
    """
    if settings.streams or not len(dataset.y_train):
        return None
    held = settings.validation if dataset.y_validation is None else 0.0
    samples = len(dataset.y_train) * (1 - held) / settings.clients
    # Joint training is compared with the same run in tasks, so it is fitted like that one.
    task = samples / settings.batch_size / settings.tasks
    if settings.limit is not None:
        task = min(task, settings.limit)
    return Extent(samples=samples, batches=task * settings.tasks, task=task)


def _values(settings: Settings, dataset: Dataset, extent: Extent | None) -> dict[str, Any]:
    """Chooses values that fit the data; `fit` uses those that the protocol leaves to the data.

    Args:
        settings: The run's settings, with the number of tasks filled in.
        dataset: The run's data, or a dataset without samples that has their form.
        extent: How much each client will see; None: nobody knows.

    Returns:
        Values by the names of settings.
    """
    values: dict[str, Any] = {"q": _between_rounds(extent)}
    if chosen_method(settings).generative is not None:
        return values
    if "model" in settings.fit:
        values["model"] = _model(dataset, extent)
    rich = extent is None or (dataset.kind == "image" and _rich(dataset, extent))
    each = settings.memory / max(len(dataset.labels), 1)
    if is_backbone(settings.model):
        values |= _backbone_recipe(settings.tune, rich)
    else:
        values |= _recipe(values.get("model", settings.model), rich, each >= WELL_REMEMBERED)
    # In a task of one class, the asymmetric loss of new samples is 0: replayed ones alone teach the
    # class, against a teacher that does not know it.
    alone = 0 < len(dataset.labels) < 2 * settings.tasks
    symmetric = alone and settings.tasks <= FEW_TASKS
    if extent is None or alone:  # a short stream learns slowly from a teacher that knows little
        values["distil"] = min(values["distil"], 1.0)
    if extent is not None:
        steps = round(GRADIENT_STEPS / max(extent.batches, 1))
        most = FEWEST_STEPS if is_backbone(settings.model) else MOST_STEPS  # it knows much already
        values["steps"] = min(max(steps, FEWEST_STEPS), most)
        # The asymmetric loss lets new classes meet old ones in replayed samples alone.
        symmetric |= extent.samples <= settings.memory or extent.task < SHORT_TASK
    if symmetric:
        values |= {"loss": "ce", "distil": min(values["distil"], 1.0)}
    return values


def _between_rounds(extent: Extent | None) -> int:
    """Chooses `q`, the number of mini-batches between two rounds; extent None: nobody knows it."""
    if extent is None:
        return MOST_BETWEEN_ROUNDS
    return min(max(int(extent.task // ROUNDS_A_TASK), 1), MOST_BETWEEN_ROUNDS)


def _model(dataset: Dataset, extent: Extent | None) -> str:
    """Chooses the name of the network that fits the kind, size and number of the samples.

    Args:
        dataset: The run's data, or a dataset without samples that has their form.
        extent: How much each client will see; None: nobody knows.
    """
    if dataset.kind != "image" or min(dataset.shape[1:]) < SMALLEST_SIDE:
        return "mlp"
    return "slim-resnet18" if extent is not None and _rich(dataset, extent) else "convnet"


def _rich(dataset: Dataset, extent: Extent) -> bool:
    """Says whether images are many and large enough for a ResNet and augmentation.

    Args:
        dataset: The run's images.
        extent: How much each client will see.
    """
    return extent.batches >= MANY and min(dataset.shape[1:]) >= LARGE


def _backbone_recipe(tune: str, rich: bool) -> dict[str, Any]:
    """Chooses how a pretrained network learns: more slowly, the more of it does.

    Args:
        tune: The part of it that learns.
        rich: Whether there are enough images to change them at random.

    Returns:
        Values by the names of settings.
    """
    return {
        "loss": "ace",
        "distil": 1.0,
        "previous": 0.25,
        "adam_lr": TUNED_LR[tune.partition(":")[0]],
        "precision": "bfloat16",
        "augment": "flip-shift" if rich else "none",
    }


def _recipe(model: str, rich: bool, well_remembered: bool) -> dict[str, Any]:
    """Chooses how a network learns: the loss and its terms, augmentation, averaging, width.

    Args:
        model: The name of the network.
        rich: Whether there are enough images to change them at random.
        well_remembered: Whether a memory has many samples of each class.

    Returns:
        Values by the names of settings.
    """
    recipe: dict[str, Any] = {"loss": "ace", "distil": 3.0}
    if model == "mlp":
        return recipe
    recipe |= {"distil": 0.5, "previous": 0.25, "adam_lr": 0.001}
    if model == "convnet":
        recipe["width"] = 40
    elif model == "slim-resnet18":
        recipe |= {"precision": "bfloat16", "previous": 0.4}
        if well_remembered:
            recipe["optimizer"] = "adam"
    if rich:
        recipe |= {"augment": "strong", "contrast": 1.0}
    return recipe
