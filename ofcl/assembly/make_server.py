"""From settings to the server: the initial model, how it averages, a method's part."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ofcl.aggregation import (
    Aggregation,
    fedavg,
    geometric_median,
    krum,
    median,
    trimmed_mean,
    weighted_fedavg,
)
from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.make_learner import build_model, generative_parts
from ofcl.compression.codecs import find_codec
from ofcl.compression.steps import Steps
from ofcl.data.dataset import Dataset
from ofcl.engines.coded_models import CodedModels
from ofcl.errors import OfclError
from ofcl.methods.learner import ServerPart
from ofcl.own_parts.lookup import find_function
from ofcl.safeguards.bounds import Bounds, Report
from ofcl.safeguards.earlier_models import EarlierModels
from ofcl.safeguards.late_updates import LateUpdates
from ofcl.server import Server
from ofcl.settings.schema import Settings
from ofcl.state import Tensors
from ofcl.update import Update, frozen, travelling


def build_server(settings: Settings, dataset: Dataset, report: Report | None = None) -> Server:
    """Builds the server with the initial model and, if the method has one, its part.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        report: Is told whose update was bounded. None: the clients are trusted, nothing is bounded
            by other clients and no earlier models are kept.
    """
    model = build_model(settings, dataset)
    # Before a method's part, which may freeze the model.
    initial, still = travelling(model, statistics=True), frozen(model)
    part: ServerPart | None = None
    if (make_part := chosen_method(settings).server_part) is not None:
        part = make_part(generative_parts(settings, dataset, model, "server"))
    return Server(
        initial,
        aggregate=build_aggregation(settings),
        previous=settings.previous,
        previous_start=settings.previous_start,
        min_clients=settings.min_clients,
        participation=settings.participation,
        dropout=settings.dropout,
        clip_norm=settings.clip_norm,
        bounds=Bounds(settings.update_bound, settings.weight_bound, report) if report else None,
        earlier=EarlierModels() if report else None,
        late=build_late_updates(settings),
        steps=build_steps(settings),
        part=part,
        frozen=still,
        surveys=settings.classifier == "nearest-mean",
        seed=settings.seed,
    )


def build_late_updates(settings: Settings) -> LateUpdates | None:
    """Builds the buffer of updates that nobody waits for; None: rounds wait.

    Args:
        settings: The run's settings.
    """
    if settings.rounds == "waiting":
        return None
    return LateUpdates(settings.buffer, settings.age_power, settings.seed)


def build_steps(settings: Settings) -> Steps | None:
    """Builds what codes the steps of the global model; None: it travels as it is.

    Args:
        settings: The run's settings.
    """
    codec = find_codec(settings.compress)
    return Steps(codec, settings.seed) if codec is not None else None


def build_coded_models(settings: Settings, server: Server) -> CodedModels | None:
    """Builds the server's side of coded messages; None: models travel as they are.

    Args:
        settings: The run's settings.
        server: The server, whose steps are sent.
    """
    codec = find_codec(settings.compress)
    if codec is None or server.steps is None:
        return None
    return CodedModels(codec, server.steps, settings.seed)


def build_aggregation(settings: Settings) -> Aggregation:
    """Returns the function with which the server averages updates.

    Args:
        settings: The run's settings.
    """
    match settings.aggregation:
        case "weighted":
            return functools.partial(
                weighted_fedavg,
                class_weights=settings.class_weights,
                nested=settings.previous if settings.nested_average else 0.0,
            )
        case "trimmed-mean":
            return functools.partial(trimmed_mean, trim=settings.trim)
        case "median":
            return median
        case "krum":
            return functools.partial(krum, bad=settings.bad_clients)
        case "geometric-median":
            return geometric_median
        case "fedavg" | "fedprox":  # FedProx averages like FedAvg; its term is in the loss
            return fedavg
        case name:
            return _own_aggregation(name, find_function("aggregation", name, {}))


def _own_aggregation(name: str, part: Aggregation) -> Aggregation:
    """Makes an aggregation of a user's own function, whose results are looked at.

    Args:
        name: The name that the settings have, for the message.
        part: The function of the updates and the previous model.
    """

    def aggregate(updates: Sequence[Update], previous: Tensors | None) -> Tensors:
        model = part(updates, previous)
        shapes = {key: value.shape for key, value in updates[0].state.items()}
        if (
            not isinstance(model, dict)
            or not model
            or any(
                key not in shapes or getattr(value, "shape", None) != shapes[key]
                for key, value in model.items()
            )
        ):
            raise OfclError(
                f"the aggregation '{name}' must return a model, a dictionary with tensors of an "
                f"update (those that are left out stay); it returned a {type(model).__name__}"
                + (" with others" if isinstance(model, dict) else "")
            )
        return model

    return aggregate
