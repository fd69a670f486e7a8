"""Giving the clients and the server of a new run what their start has: models, memories, tasks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ofcl.assembly.start import Start
from ofcl.client import Client
from ofcl.data.dataset import Dataset
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.errors import OfclError
from ofcl.models.head import grown, outputs, width
from ofcl.server import Server
from ofcl.state import Tensors
from ofcl.update import network_alone


def take_over(start: Start, clients: Sequence[Client], server: Server, seed: int) -> None:
    """Gives new clients and a new server the state of their start; the streams are the new ones.

    Args:
        start: The start; one without a model, of a run that is resumed, changes nothing.
        clients: The clients of the new run.
        server: The server of the new run.
        seed: The run's seed, from which outputs for new classes start.

    Raises:
        OfclError: If the state does not fit.
    """
    if not start.model:
        return
    try:
        # Copies, as a run changes its tensors in place and the start may serve another run.
        # A saved model is without what a method adds to it (`COMPANION`): that begins anew.
        model = {
            **server.model,
            **{name: start.model[name] for name in network_alone(server.model)},
        }
        server.load_state(deepcopy(start.server or {**server.state(), "model": model}))
        if start.clients:
            for client, state in zip(clients, start.clients, strict=True):
                learned = {k: v for k, v in state.items() if k != "earlier_stream"}
                client.load_state(deepcopy(learned))
        else:
            for client in clients:
                _take_model(client, model, seed)
    except (KeyError, ValueError, RuntimeError) as error:
        raise OfclError(
            f"what '{start.name}' has learned does not fit the settings of the new run "
            f"({str(error).splitlines()[0]})"
        ) from error


def _take_model(client: Client, model: Tensors, seed: int) -> None:
    """Lets a new client begin with a model, as if it had just taken it in a round.

    Args:
        client: The client.
        model: The named tensors of the global model.
        seed: The run's seed, from which outputs for new classes start.
    """
    client.grow(width(model))
    model = grown(model, outputs(client.model), seed)
    state = client.state()
    begun = {name: model[name] for name in state["start"]}  # private updates are measured from it
    own = {name: value for name, value in state["model"].items() if name not in model}
    client.load_state({**state, "model": {**own, **model}, "start": begun})
    device = next(client.model.parameters()).device
    client.learner.before_round()  # whoever keeps a copy of the model takes this one
    client.learner.after_round({name: value.to(device) for name, value in model.items()})


def relabelled(dataset: Dataset, start: Start) -> Dataset:
    """Returns a dataset whose classes are those of a start, with its new labels behind the old.

    Images are normalised as those of the start were, so that the model sees one scale.

    Args:
        dataset: The dataset, with classes in the order of its own labels.
        start: The start, whose labels keep their places.
    """
    vocabulary = Vocabulary(start.labels)
    places = torch.full([len(dataset.labels)], -1)
    changed: dict[str, Any] = {}
    for part in ("y_train", "y_validation", "y_test"):  # classes that are learned come first
        y: Tensor | None = getattr(dataset, part)
        if y is not None:
            for c in sorted(set(y.tolist())):
                places[c] = vocabulary.place(dataset.labels[c])
            changed[part] = places[y]
    if dataset.kind == "image" and start.normalisation is not None:
        changed["mean"], changed["std"] = map(tuple, start.normalisation)
    return replace(dataset, labels=vocabulary.labels, **changed)
