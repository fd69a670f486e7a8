"""From settings to a client: its learner, its stream, its tests, what it shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.dealing import batch_limit, build_reading, embedder_of
from ofcl.assembly.make_learner import build_learner, build_model
from ofcl.assembly.resolve import find_device
from ofcl.client import Client
from ofcl.communication.schedule import Barrier, Schedule
from ofcl.communication.sharing import Sharing
from ofcl.compression.codecs import find_codec
from ofcl.data.dataset import Dataset
from ofcl.data.live.form import Form, Pattern
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.sample import Feed
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.noise import noisy_train
from ofcl.data.options import OnBad
from ofcl.data.scenario import Share
from ofcl.data.stream import ArrayStream, Stream
from ofcl.evaluation.held_out import HeldOut, HeldOutParts, Tested
from ofcl.evaluation.joined_held_out import JoinedHeldOut
from ofcl.methods.accompanied import Accompanied
from ofcl.methods.learner import Learner
from ofcl.privacy import Privacy
from ofcl.secure_sum.masking import FEWEST, threshold
from ofcl.settings.schema import Settings


@dataclass(frozen=True)
class Earlier:
    """The tasks that a client has learned in earlier runs.

    Args:
        tasks: The number of these tasks.
        held_out: The samples of these tasks that the client is tested on.
    """

    tasks: int
    held_out: HeldOutParts


def build_client(
    settings: Settings,
    dataset: Dataset,
    number: int,
    *,
    stream: Stream,
    held_out: HeldOutParts,
    tasks: int | None,
    classes: int | None = None,
    accompanied: bool = False,
) -> Client:
    """Builds a client with a model, a learner and random generators of its own.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        number: The client's number.
        stream: The client's mini-batches.
        held_out: The samples that the client is tested on.
        tasks: How many tasks the stream has; None: the stream alone knows.
        classes: How many outputs the client's model starts with; None: as many as the dataset has
            labels.
        accompanied: Whether a second learner learns the same without rounds (`Accompanied`).
    """

    def learner() -> Learner:
        return build_learner(settings, dataset, number, build_model(settings, dataset, classes))

    return Client(
        number,
        learner=Accompanied(learner(), learner()) if accompanied else learner(),
        stream=stream,
        held_out=held_out,
        schedule=build_schedule(settings),
        sharing=build_sharing(settings),
        tasks=tasks,
        barrier=build_barrier(settings),
        classifier=settings.classifier,
        seed=settings.seed,
    )


def build_barrier(settings: Settings) -> Barrier:
    """Chooses where a client that has ended a task waits for the others (`Barrier`).

    Args:
        settings: The run's settings, resolved.
    """
    match settings.closing_round:
        case "task":
            return "before-test"
        case "end":
            return "at-end"
        case "none":
            meets = chosen_method(settings).server_part is not None
            return "after-test" if meets else "none"


def build_schedule(settings: Settings) -> Schedule:
    """Builds the schedule that says after which mini-batches a client communicates.

    Args:
        settings: The run's settings.
    """
    return Schedule(settings.burn_in, settings.q, settings.first_round)


def needs_class_counts(settings: Settings) -> bool:
    """Says whether the aggregation weights clients by how many samples of each class they have.

    Args:
        settings: The run's settings.
    """
    return settings.aggregation == "weighted"


def build_sharing(settings: Settings) -> Sharing:
    """Collects what clients send (class counts, features) and how they take the global model.

    Args:
        settings: The run's settings.
    """
    return Sharing(
        class_counts=needs_class_counts(settings) and settings.class_counts,
        mixing=settings.mixing,
        batchnorm=settings.batchnorm,
        privacy=_build_privacy(settings),
        features=settings.classifier == "nearest-mean" and settings.class_counts,
        codec=find_codec(settings.compress),
        summed=settings.secure_aggregation,
    )


def fewest_in_sum(settings: Settings) -> int:
    """Computes the fewest parties that may begin a secure sum.

    Args:
        settings: The run's settings.
    """
    return max(FEWEST, settings.min_clients)


def _build_privacy(settings: Settings) -> Privacy | None:
    """Builds the clipping and the noise of updates; None: they are sent as they are.

    If the server sees sums alone, parties share the noise: the sum of as few updates as a secure
    sum may have carries all of it.
    """
    if not settings.dp_clip:
        return None
    parts = threshold(fewest_in_sum(settings)) if settings.secure_aggregation else 1
    return Privacy(settings.dp_clip, settings.dp_noise / math.sqrt(parts))


def build_dataset_client(
    settings: Settings,
    dataset: Dataset,
    number: int,
    share: Share,
    classes: int | None = None,
    earlier: Earlier | None = None,
    *,
    accompanied: bool = False,
) -> Client:
    """Builds a client that learns its share of a dataset.

    Args:
        settings: The run's settings, resolved.
        dataset: The whole dataset, on the run's device.
        number: The client's number.
        share: The rows of the dataset that are this client's.
        classes: How many outputs the client's model starts with; None: as many as the dataset has
            labels.
        earlier: What the client has learned in earlier runs; None: nothing.
        accompanied: Whether a second learner learns the same without rounds (`Accompanied`).
    """
    train, test = (dataset.x_train, dataset.y_train), (dataset.x_test, dataset.y_test)
    validation = train
    if dataset.x_validation is not None and dataset.y_validation is not None:
        validation = dataset.x_validation, dataset.y_validation
    held_out = HeldOutParts(
        HeldOut(*test, share.test, dataset.prepare, at_once=settings.joint),
        HeldOut(*validation, share.validation, dataset.prepare, at_once=settings.joint),
    )
    limit, tasks, first = batch_limit(settings), settings.tasks_in_stream, 0
    if earlier is not None:
        first = earlier.tasks
        held_out = HeldOutParts(
            JoinedHeldOut([(earlier.held_out.test, first), (held_out.test, tasks)]),
            JoinedHeldOut([(earlier.held_out.validation, first), (held_out.validation, tasks)]),
        )
    x, y, rows_of_tasks = noisy_train(
        dataset,
        share,
        number,
        settings.seed,
        label_noise=settings.label_noise,
        input_noise=settings.input_noise,
    )
    stream = ArrayStream(x, y, rows_of_tasks, settings.batch_size, dataset.prepare, limit, first)
    if earlier is not None:  # its memory may have more samples than this dataset
        dataset = replace(dataset, x_train=dataset.x_train[:0], y_train=dataset.y_train[:0])
    return build_client(
        settings,
        dataset,
        number,
        stream=stream,
        held_out=held_out,
        tasks=first + tasks,
        classes=classes,
        accompanied=accompanied,
    )


def build_live_client(
    settings: Settings,
    dataset: Dataset,
    number: int,
    stream: LiveStream,
    test: Tested,
    *,
    accompanied: bool = False,
) -> Client:
    """Builds a client that learns from a live stream.

    Args:
        settings: The run's settings, resolved.
        dataset: A dataset without samples that has the form of the stream's.
        number: The client's number.
        stream: The stream of mini-batches.
        test: The samples that the client is tested on.
        accompanied: Whether a second learner learns the same without rounds (`Accompanied`).
    """
    no_validation = HeldOut(dataset.x_test, dataset.y_test, [])
    held_out = HeldOutParts(test, no_validation)
    return build_client(
        settings,
        dataset,
        number,
        stream=stream,
        held_out=held_out,
        tasks=None,
        accompanied=accompanied,
    )


def build_live_stream(
    settings: Settings,
    number: int,
    feed: Feed,
    pattern: Pattern,
    vocabulary: Vocabulary,
    *,
    standardise: bool,
    normalisation: tuple[Sequence[float], Sequence[float]] | None = None,
) -> LiveStream:
    """Builds a client's stream of mini-batches from the single samples that a feed brings.

    Args:
        settings: The run's settings.
        number: The client's number.
        feed: The source of the samples.
        pattern: Kind and shape of all clients' samples; the first sample fills it in.
        vocabulary: The labels of all clients, to which the stream adds new ones.
        standardise: Whether columns of numbers are standardised by the first rows (`window`).
        normalisation: Mean and standard deviation of each channel, by which images are normalised;
            None: those of all live images.
    """
    form = Form(
        pattern,
        embedder=embedder_of(settings),
        root=build_reading(settings).root,
        tokens=settings.tokens,
        weights=settings.weights,
        window=settings.window if standardise else None,
        device=find_device(settings.device),
        normalisation=normalisation,
        named=bool(settings.columns),
        feature_window=settings.window if settings.features == "standardised" else None,
    )
    on_bad: OnBad = "skip" if settings.on_bad == "skip" else "stop"
    waits = settings.on_bad == "wait"
    return LiveStream(number, feed, form, vocabulary, settings.batch_size, on_bad, waits)
