"""From settings to the clients' shares of a dataset: how it is read, and how it is dealt."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ofcl.data.dataset import Dataset
from ofcl.data.loading import load_dataset
from ofcl.data.options import Features, Progress, Reading, Subset, data_root, no_progress
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm, TextForm, VectorForm
from ofcl.data.scenario import Share, build_scenario, joint_share
from ofcl.errors import OfclError
from ofcl.pretrained.backbone_names import is_backbone, parse_backbone
from ofcl.pretrained.tokens import TOKENS
from ofcl.settings.schema import Settings


def build_reading(
    settings: Settings, progress: Progress = no_progress, form: SampleForm | None = None
) -> Reading:
    """Collects, from the settings, how the run's data are read: columns, sizes, subsets, folders.

    Args:
        settings: The run's settings.
        progress: Shows how far long work has come.
        form: The form of the samples that a run goes on from, which these must have too; None: it
            begins anew.
    """
    reading = Reading(
        root=Path(settings.data_root).expanduser() if settings.data_root else data_root(),
        label=settings.label,
        text=settings.text,
        columns=settings.columns,
        drop=settings.drop,
        image_size=settings.image_size,
        embedder=embedder_of(settings),
        features=settings.features,
        tokens=settings.tokens,
        weights=settings.weights,
        test_share=settings.test_share,
        window=settings.window,
        subset=Subset(
            settings.train_head,
            settings.test_head,
            settings.train_per_class,
            settings.test_per_class,
        ),
        on_bad="skip" if settings.on_bad == "skip" else "stop",
        track=progress,
    )
    return _in_form(reading, form) if form is not None else reading


def embedder_of(settings: Settings) -> str:
    """Returns the embedder by which samples are read: a pretrained model of texts takes token ids.

    Args:
        settings: The run's settings.
    """
    model = settings.model
    if is_backbone(model) and parse_backbone(model).takes == "text":
        return f"{TOKENS}{model}"
    return settings.embedder


def _in_form(how: Reading, form: SampleForm) -> Reading:
    """Returns options by which samples get the form of those of an earlier run.

    Args:
        how: The options of reading.
        form: The form.
    """
    how = replace(how, fewest_classes=1)  # the others have been learned
    match form:
        case ImageForm():
            scaling = (form.feature_mean, form.feature_scale) if form.feature_mean else None
            features: Features = "unit" if scaling is None else "standardised"
            return replace(how, white=form.white or 0.0, features=features, standardisation=scaling)
        case TableForm():
            if how.columns not in ((), form.columns):
                raise OfclError(f"columns = {', '.join(how.columns)}, but the earlier run has "
                                f"learned {', '.join(form.columns)}")  # fmt: skip
            return replace(
                how,
                label=how.label or form.label,
                columns=form.columns,
                standardisation=(form.mean, form.scale),
                codes=form.codes,
            )
        case TextForm():
            return replace(how, label=how.label or form.label, text=how.text or form.column)
        case VectorForm():
            return replace(how, label=how.label or form.label)


class Loader:
    """Loads the dataset that settings name, and keeps it for a next run over the same data.

    Args:
        progress: Shows how far long work has come.
        tell: Gets a line about each download.
    """

    def __init__(
        self,
        progress: Progress = no_progress,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._progress, self._tell = progress, tell
        self._last: tuple[str, Reading, Dataset] | None = None

    def __call__(self, settings: Settings, form: SampleForm | None = None) -> Dataset:
        """Loads the dataset that the settings name; returns the last one again if it is the same.

        Args:
            settings: The run's settings.
            form: The form of the samples that a run goes on from; None: it begins anew.
        """
        name, reading = settings.dataset, build_reading(settings, self._progress, form)
        if self._last is None or self._last[:2] != (name, reading):
            self._last = name, reading, load_dataset(name, reading, self._tell)
        return self._last[2]


def build_shares(
    settings: Settings, dataset: Dataset, first_task: int | None = None
) -> list[Share]:
    """Deals the samples of a dataset to the clients.

    Args:
        settings: The run's settings, resolved.
        dataset: The dataset, on the CPU.
        first_task: The number of the first task of a run that goes on where another has ended;
            None: the run goes on from none.

    Returns:
        For each client, the rows of the dataset that it gets.
    """
    validation = None if dataset.y_validation is None else dataset.y_validation.numpy()
    train, test = dataset.y_train.numpy(), dataset.y_test.numpy()
    return deal(settings, train, test, len(dataset.labels), validation, first_task)


def deal(
    settings: Settings,
    train: np.ndarray,
    test: np.ndarray,
    classes: int,
    validation: np.ndarray | None,
    first_task: int | None = None,
) -> list[Share]:
    """Deals samples to the clients by their classes alone; the samples themselves are not needed.

    Args:
        settings: The run's settings.
        train: The class of every train sample.
        test: The class of every test sample.
        classes: How many classes the tasks are made of.
        validation: The class of every sample of a validation part; None: there is no such part.
        first_task: The number of the first task of a run that goes on where another has ended;
            None: the run goes on from none.

    Returns:
        For each client, the numbers of its samples in these arrays, task by task.
    """
    shares = build_scenario(
        train,
        test,
        classes,
        y_validation=validation,
        seed=settings.seed,
        clients=settings.clients,
        tasks=settings.tasks,
        class_order=settings.class_order,
        task_order=settings.task_order,
        class_split=settings.class_split,
        drop_class=settings.drop_class,
        split=settings.split,
        alpha=settings.alpha,
        remainder=settings.remainder,
        validation=settings.validation,
        blurry=settings.blurry,
        imbalance=settings.imbalance,
        first_task=first_task,
    )
    if not settings.joint:
        return shares
    most = settings.limit * settings.batch_size if settings.limit else None
    return [joint_share(share, most, settings.seed, k) for k, share in enumerate(shares)]


def batch_limit(settings: Settings) -> int | None:
    """Returns the largest number of mini-batches of a task (`limit`); None: no limit.

    With `joint` there is none, as `deal` has already applied the limit to each task before it
    joined all tasks to one.

    Args:
        settings: The run's settings.
    """
    return None if settings.joint else settings.limit


def task_lengths(settings: Settings, share: Share) -> list[int]:
    """Counts the mini-batches of each of a client's tasks, up to the limit.

    Args:
        settings: The run's settings, with the size of mini-batches and the limit.
        share: The client's share of the dataset.
    """
    limit = batch_limit(settings)
    lengths = [math.ceil(len(rows) / settings.batch_size) for rows in share.train]
    return [min(length, limit or length) for length in lengths]


def arrivals(settings: Settings, share: Share) -> np.ndarray:
    """Lists the rows of the train data that a client gets, in the order of its stream.

    Args:
        settings: The run's settings, with the limit of mini-batches for each task.
        share: The client's share of the dataset.
    """
    limit = batch_limit(settings)
    most = limit * settings.batch_size if limit else None
    return np.concatenate([rows[:most] for rows in share.train])
