"""From settings to the parts of a run. The only place that sees all settings at once."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ofcl.aggregation import Aggregation, fedavg, median, trimmed_mean, weighted_fedavg
from ofcl.client import Client, Schedule
from ofcl.compute.optimizers import SGD, Adam
from ofcl.data.dataset import Dataset
from ofcl.data.live.form import Form, Pattern
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.sample import Feed
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.options import Progress, Reading, Subset, data_root, no_progress
from ofcl.data.scenario import Share, build_scenario
from ofcl.data.stream import ArrayStream, Stream
from ofcl.data.tasks import usual_tasks
from ofcl.errors import OfclError, unknown
from ofcl.evaluation.held_out import HeldOut, Tested
from ofcl.memory.memory import Memory
from ofcl.methods import METHODS
from ofcl.methods.learner import Learner, ServerPart
from ofcl.methods.losses import LOSSES, proximal_term
from ofcl.methods.parts import GenerativeParts, PolicyParts
from ofcl.methods.replay import Replay
from ofcl.models import MODELS, ModelSize
from ofcl.models.head import FEWEST_CLASSES, outputs
from ofcl.privacy import Privacy
from ofcl.seeds import generator, private
from ofcl.server import Server
from ofcl.settings.schema import Settings
from ofcl.uncertainty.perturbations import (
    Change,
    FlipAndRotate,
    ImageViews,
    NoisyCopies,
    Perturbation,
    choose_perturbations,
)
from ofcl.uncertainty.scorer import Scorer
from ofcl.uncertainty.scores import find_score
from ofcl.update import travelling


def check_names(settings: Settings) -> None:
    """Refuses names that nobody knows, before anything is waited for."""
    if settings.method not in METHODS:
        raise unknown("method", settings.method, METHODS)
    if settings.model not in {*MODELS, "auto"}:
        raise unknown("model", settings.model, [*MODELS, "auto"])
    find_device(settings.device)


def resolve(settings: Settings, dataset: Dataset) -> Settings:
    """Settings in which nothing is left to be found out: no `auto`, a learning rate."""
    check_names(settings)
    model = settings.model
    generative = METHODS[settings.method].generative
    if model == "auto":
        model = "slim-resnet18" if dataset.kind == "image" else "mlp"
        model = (generative and generative.model) or model
    optimizer = settings.optimizer
    if optimizer == "auto":
        optimizer = "sgd" if model == "slim-resnet18" else "adam"
    rate = settings.sgd_lr if optimizer == "sgd" else settings.adam_lr
    tasks = settings.tasks
    if "tasks" not in settings.model_fields_set and not settings.streams:
        tasks = min(tasks, usual_tasks(len(set(dataset.y_train.tolist()))))
    found = {
        "dataset": settings.dataset if settings.streams else dataset.source or dataset.name,
        "tasks": tasks,
        "model": model,
        "optimizer": optimizer,
        "lr": settings.lr or rate,
        "device": str(find_device(settings.device)),
        "perturbations": choose_perturbations(settings.perturbations),
    }
    return settings.model_copy(update=found)


def build_reading(settings: Settings, track: Progress = no_progress) -> Reading:
    """How the run's data are read."""
    return Reading(
        root=Path(settings.data_root).expanduser() if settings.data_root else data_root(),
        label=settings.label,
        text=settings.text,
        columns=settings.columns,
        image_size=settings.image_size,
        embedder=settings.embedder,
        test_share=settings.test_share,
        window=settings.window,
        subset=Subset(
            settings.train_head,
            settings.test_head,
            settings.train_per_class,
            settings.test_per_class,
        ),
        on_bad=settings.on_bad,
        track=track,
    )


def find_device(name: str) -> torch.device:
    """The device of this name; an error if this machine has none."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OfclError(f"unknown device '{name}'; expected auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise OfclError(f"device '{name}' is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise OfclError(f"device '{name}' is not there; this machine has "
                        f"{torch.cuda.device_count()} CUDA devices. Use --device cpu")  # fmt: skip
    return device


def build_shares(settings: Settings, dataset: Dataset) -> list[Share]:
    """The clients' shares of a dataset."""
    held = None if dataset.y_validation is None else dataset.y_validation.numpy()
    train, test = dataset.y_train.numpy(), dataset.y_test.numpy()
    return deal(settings, train, test, len(dataset.labels), held)


def deal(
    settings: Settings, train: np.ndarray, test: np.ndarray, classes: int, held: np.ndarray | None
) -> list[Share]:
    """The clients' shares of data with these labels; `held` are those of a validation part."""
    return build_scenario(
        train,
        test,
        classes,
        y_validation=held,
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
    )


def task_lengths(settings: Settings, share: Share) -> list[int]:
    """The number of mini-batches of each of a client's tasks."""
    lengths = [math.ceil(len(rows) / settings.batch_size) for rows in share.train]
    return [min(length, settings.limit or length) for length in lengths]


def arrivals(settings: Settings, share: Share) -> np.ndarray:
    """The rows of the train data in the order in which a client gets them."""
    most = settings.limit * settings.batch_size if settings.limit else None
    return np.concatenate([rows[:most] for rows in share.train])


def build_schedule(settings: Settings) -> Schedule:
    """When clients communicate."""
    return Schedule(settings.burn_in, settings.q, settings.first_round)


def build_model(settings: Settings, dataset: Dataset, classes: int | None = None) -> nn.Module:
    """The initial model, the same for all; it starts with so many classes, by default with all."""
    classes = max(len(dataset.labels) if classes is None else classes, FEWEST_CLASSES)
    size = ModelSize(
        dataset.shape, classes, settings.width, settings.hidden, dataset.mean, dataset.std
    )
    with private(settings.seed, "model"):
        model = MODELS[settings.model].build(size)
    # Images are faster with their channels last; modules without images do not mind.
    return model.to(dataset.x_train.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def build_perturbation(settings: Settings, dataset: Dataset) -> Perturbation:
    """How copies of a sample are made, by the kind of the data."""
    if dataset.kind == "vector":
        return NoisyCopies(settings.noise_std, settings.noise_copies)
    return ImageViews(
        settings.perturbations,
        mean=dataset.mean,
        std=dataset.std,
        draws=settings.draws,
        pixels=settings.pixels,
        interpolation=settings.interpolation,
    )


def build_client(
    settings: Settings, dataset: Dataset, number: int, share: Share, classes: int | None = None
) -> Client:
    """A client that learns its share of a dataset; its model starts with so many classes."""
    train, test = (dataset.x_train, dataset.y_train), (dataset.x_test, dataset.y_test)
    held = train
    if dataset.x_validation is not None and dataset.y_validation is not None:
        held = dataset.x_validation, dataset.y_validation
    return join(
        settings,
        dataset,
        number,
        stream=ArrayStream(
            *train, share.train, settings.batch_size, dataset.prepare, settings.limit
        ),
        test=HeldOut(*test, share.test, dataset.prepare),
        validation=HeldOut(*held, share.validation, dataset.prepare),
        tasks=settings.tasks,
        classes=classes,
    )


def build_stream(
    settings: Settings,
    number: int,
    feed: Feed,
    pattern: Pattern,
    vocabulary: Vocabulary,
    *,
    standardise: bool,
) -> LiveStream:
    """A client's stream of what a feed brings."""
    form = Form(
        pattern,
        embedder=settings.embedder,
        root=build_reading(settings).root,
        window=settings.window if standardise else None,
        device=find_device(settings.device),
    )
    return LiveStream(number, feed, form, vocabulary, settings.batch_size, settings.on_bad)


def build_live_client(
    settings: Settings, dataset: Dataset, number: int, stream: LiveStream, test: Tested
) -> Client:
    """A client that learns from a stream; the dataset has no samples, only their form."""
    nothing = HeldOut(dataset.x_test, dataset.y_test, [])
    return join(settings, dataset, number, stream=stream, test=test, validation=nothing, tasks=None)


def join(
    settings: Settings,
    dataset: Dataset,
    number: int,
    *,
    stream: Stream,
    test: Tested,
    validation: Tested,
    tasks: int | None,
    classes: int | None = None,
) -> Client:
    """One client with everything of its own."""
    model = build_model(settings, dataset, classes)
    learner = build_learner(settings, dataset, number, model)
    generative = METHODS[settings.method].generative is not None
    client = Client(
        number,
        tasks=tasks,
        model=model,
        learner=learner,
        stream=stream,
        test=test,
        validation=validation,
        schedule=build_schedule(settings),
        class_counts=settings.aggregation == "weighted" and settings.class_counts,
        mixing=settings.mixing,
        batchnorm=settings.batchnorm,
        barrier=generative,
        anchored=settings.aggregation == "fedprox",
        privacy=Privacy(settings.dp_clip, settings.dp_noise) if settings.dp_clip else None,
        seed=settings.seed,
    )
    if settings.aggregation == "fedprox":

        def penalty() -> Tensor:
            parameters = list(model.parameters())  # the head's may have been replaced
            return proximal_term(parameters, client.anchor, settings.mu, settings.proximal)

        learner.penalty = penalty
    return client


def build_learner(settings: Settings, dataset: Dataset, number: int, model: nn.Module) -> Learner:
    """How a client learns: by a generative method, or with a memory."""
    generative = METHODS[settings.method].generative
    if generative is not None:
        return generative.client(generative_parts(settings, dataset, model, "generative", number))
    return build_replay(settings, dataset, number, model)


def generative_parts(
    settings: Settings, dataset: Dataset, model: nn.Module, *purpose: str | int
) -> GenerativeParts:
    """What a generative method is built from."""
    return GenerativeParts(
        model=model,
        make_optimizer=lambda: build_optimizer(settings, model),
        generator=generator(settings.seed, *purpose),
        seed=settings.seed,
        shape=dataset.shape,
        classes=outputs(model),
        mean=dataset.mean,
        std=dataset.std,
        width=settings.width,
        steps=settings.steps,
        augment=build_augmentation(settings, dataset),
        synthetic=settings.synthetic,
        generator_steps=settings.generator_steps,
        generator_labels=settings.generator_labels,
        consolidation=settings.consolidation,
        consistency=settings.consistency,
        gan_lr=settings.gan_lr,
    )


def build_optimizer(settings: Settings, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of a client's model."""
    assert settings.lr is not None  # resolved
    if settings.optimizer == "sgd":
        return SGD(model.parameters(), lr=settings.lr)
    if next(model.parameters()).is_cuda:  # there, a captured step counts on the device
        return torch.optim.Adam(model.parameters(), lr=settings.lr, fused=True, capturable=True)
    return Adam(model.parameters(), lr=settings.lr)


def build_augmentation(settings: Settings, dataset: Dataset) -> Change | None:
    """How steps after the first see the new images; None: as they are."""
    if dataset.kind != "image" or not settings.augment:
        return None
    return FlipAndRotate(settings.draws, settings.interpolation)


def build_replay(settings: Settings, dataset: Dataset, number: int, model: nn.Module) -> Replay:
    """The learner with a memory: model, optimiser, memory, scorer."""

    def own(purpose: str) -> torch.Generator:
        return generator(settings.seed, purpose, number)

    def make_scorer(score: str) -> Scorer:
        return Scorer(
            model,
            find_score(score, settings.score_average),
            as_of=settings.scoring_model,
            perturb=build_perturbation(settings, dataset),
            mode=settings.scoring_mode,
            generator=own("perturbation"),
            lot=(settings.batch_size + 1) // 2,
        )

    memory, policy = None, METHODS[settings.method].policy
    if policy is not None:
        draws = own("memory")
        parts = PolicyParts(draws, make_scorer, settings.keep, settings.rescore)
        # There is never more to remember than there is; of a stream nobody knows.
        size = min(settings.memory, len(dataset.y_train) or settings.memory)
        memory = Memory(
            size,
            policy(parts),
            draws,
            settings.memory_rule,
            dataset.x_train.device,
            settings.memory_age,
            settings.memory_days,
        )
    return Replay(
        model=model,
        optimizer=build_optimizer(settings, model),
        loss=LOSSES[settings.loss],
        memory=memory,
        generator=own("augmentation"),
        steps=settings.steps,
        replay=settings.replay,
        augment=build_augmentation(settings, dataset),
        test_first=settings.test_first or bool(settings.streams),
    )


def build_server(settings: Settings, dataset: Dataset) -> Server:
    """The server with the initial model."""
    model = build_model(settings, dataset)
    aggregate: Aggregation = fedavg  # FedProx averages like FedAvg; its term is in the loss
    if settings.aggregation == "weighted":
        aggregate = functools.partial(
            weighted_fedavg,
            class_weights=settings.class_weights,
            nested=settings.previous if settings.nested_average else 0.0,
        )
    elif settings.aggregation == "trimmed-mean":
        aggregate = functools.partial(trimmed_mean, trim=settings.trim)
    elif settings.aggregation == "median":
        aggregate = median
    part: ServerPart | None = None
    if (generative := METHODS[settings.method].generative) is not None:
        part = generative.server(generative_parts(settings, dataset, model, "server"))
    return Server(
        travelling(model, statistics=True),
        aggregate=aggregate,
        previous=settings.previous,
        previous_start=settings.previous_start,
        min_clients=settings.min_clients,
        participation=settings.participation,
        dropout=settings.dropout,
        clip_norm=settings.clip_norm,
        part=part,
        seed=settings.seed,
    )
