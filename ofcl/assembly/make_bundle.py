"""From a run to the bundle of its global model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ofcl.assembly.participants import Participants
from ofcl.bundle.abstention import risk_curve
from ofcl.bundle.bundle_files import Bundle
from ofcl.bundle.description import Curve, Description, Learned, Network, Perturbed, Pretrained
from ofcl.bundle.open_bundle import open_bundle
from ofcl.client import Client
from ofcl.data.files.image_embedders import public_name
from ofcl.data.sample_forms import ImageForm, SampleForm, TextForm
from ofcl.evaluation.held_out import HeldOut
from ofcl.evaluation.joined_held_out import JoinedHeldOut
from ofcl.evaluation.results import Result
from ofcl.methods.nearest_mean import Classifier
from ofcl.models.head import width
from ofcl.own_parts.part_identity import identities
from ofcl.pretrained.backbone_names import parse_backbone
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings
from ofcl.update import network_alone

MOST_VALIDATION = 2000  # samples of all clients, by which abstention is chosen
NOISE, COPIES = 0.05, 10  # of images
"""The noise by which the uncertainty about images is measured, when a model is used.

The twelve perturbations choose what a memory keeps. They do not tell right answers from wrong ones:
a model that has never seen an inverted image says little by what it makes of it (docs/use.md).
"""
FIGURES = ("A", "F", "global_A", "global_F", "balanced_accuracy", "validation_A")


def build_bundle(
    participants: Participants,
    result: Result,
    classes_of_tasks: list[list[int]],
    *,
    finished: bool,
    epsilon: float | None,
    made_with: dict[str, Any],
) -> Bundle:
    """Makes the bundle of a run's global model as it is now.

    Args:
        participants: The server with the model, and the clients if they learn in this process.
        result: The result so far.
        classes_of_tasks: The classes of each task so far, if all clients have the same.
        finished: Whether the run is over; then errors against coverage are measured on the clients'
            validation samples too.
        epsilon: The privacy cost so far; None: there is no differential privacy.
        made_with: The versions of ofcl, Python and PyTorch.
    """
    settings, server = participants.settings, participants.server
    # A class may have come after the last round: the global model has no output for it yet.
    labels = participants.labels[: width(server.model)]
    figures = result.to_json()
    description = describe(
        settings,
        labels,
        participants.sample_form(),
        outputs=width(server.model),
        classifier="nearest-mean" if server.prototypes else "head",
        learned=Learned(
            settings=shareable(settings),
            data="stream" if settings.streams else Path(settings.dataset).name,
            fingerprint=participants.fingerprint,
            clients=settings.clients,
            rounds=server.round,
            tasks=tuple(tuple(labels[c] for c in task) for task in classes_of_tasks),
            finished=finished,
            metrics={name: figures[name] for name in FIGURES},
            epsilon=epsilon,
            made_with=with_parts(settings, made_with),
            licence=settings.licence,
        ),
    )
    bundle = Bundle(description, network_alone(server.model) | server.prototypes | server.frozen)
    if not finished:
        return bundle
    curves = validation_curves(bundle, participants.clients)
    return bundle._replace(description=replace(description, abstention=curves))


def _copies(settings: Settings, form: SampleForm) -> Perturbed:
    """Chooses the copies of a sample by which a user of the model sees how unsure it is.

    Args:
        settings: The run's settings.
        form: The form of the samples.
    """
    if isinstance(form, ImageForm) and form.embedder is None:
        return Perturbed((), settings.pixels, settings.interpolation, NOISE, COPIES)
    std, copies = settings.noise_std, settings.noise_copies
    if isinstance(form, TextForm) and form.as_tokens:
        std = settings.hidden_tokens  # here it is a share of tokens
    return Perturbed((), settings.pixels, settings.interpolation, std, copies)


def _without_folders(form: SampleForm) -> SampleForm:
    """Returns a form that names an embedder in a folder by the folder's name, not by its path.

    Whoever uses the model has it elsewhere; its checksum tells whether it is the same one.
    """
    if isinstance(form, ImageForm) and form.embedder is not None:
        return replace(form, embedder=replace(form.embedder, name=public_name(form.embedder.name)))
    if not isinstance(form, TextForm) or not Path(form.embedder.model).is_absolute():
        return form
    embedder = replace(form.embedder, model=Path(form.embedder.model).name)
    return replace(form, embedder=embedder)


def describe(
    settings: Settings,
    labels: tuple[str, ...],
    samples: SampleForm,
    *,
    outputs: int,
    classifier: Classifier,
    learned: Learned,
) -> Description:
    """Describes a model that was learned under some settings.

    Args:
        settings: The run's settings, resolved.
        labels: The label of each class.
        samples: How samples are read.
        outputs: The outputs of the model's head.
        classifier: How the model predicts.
        learned: How the model was learned.
    """
    return Description(
        labels=labels,
        network=_network(settings, outputs),
        samples=_without_folders(samples),
        classifier=classifier,
        uncertainty=_copies(settings, samples),
        learned=learned,
    )


def _network(settings: Settings, outputs: int) -> Network:
    """Describes a network; a pretrained one is named without the place of its weights here.

    Args:
        settings: The run's settings, resolved.
        outputs: The outputs of its head.
    """
    name, pretrained = settings.model, None
    if settings.backbone is not None:
        name = parse_backbone(name).name
        how = settings.tune, settings.lora_rank, settings.backbone_side
        pretrained = Pretrained(settings.backbone, *how)
    return Network(name, max(outputs, 1), settings.width, settings.hidden, pretrained)


def with_parts(settings: Settings, made_with: dict[str, Any]) -> dict[str, Any]:
    """Adds the identity of a network of the user's own to what a model was made with.

    Args:
        settings: The run's settings.
        made_with: The versions of ofcl, Python and PyTorch.
    """
    own = identities({"model": settings.model})
    return {**made_with, "parts": own} if own else made_with


def shareable(settings: Settings) -> dict[str, Any]:
    """Returns the settings that may leave with a model: none that names files or folders.

    Args:
        settings: The run's settings.
    """
    values = settings.model_dump(mode="json")
    if settings.backbone is not None:
        values["model"] = parse_backbone(settings.model).name
    return {
        name: value for name, value in values.items() if name not in (*AT_PARTY, "ray", "start")
    }


def validation_curves(bundle: Bundle, clients: list[Client]) -> dict[Any, Curve]:
    """Measures on the clients' validation samples how often the model errs where it is sure.

    Args:
        bundle: The bundle of the global model.
        clients: The clients in this process.

    Returns:
        The curves by `probability` and `uncertainty`; empty if there are no validation samples.
    """
    own = (c.validation for c in clients)
    held_out = [part for part in own if isinstance(part, HeldOut | JoinedHeldOut)]
    parts = [part.inputs(MOST_VALIDATION // max(len(held_out), 1)) for part in held_out]
    if not sum(len(y) for _, y in parts):
        return {}
    inputs, classes = (torch.cat(columns) for columns in zip(*parts, strict=True))
    answers = open_bundle(bundle, trusted=True).to(inputs.device).answer_prepared(inputs)
    right = answers.classes == classes.numpy()
    return {
        "probability": risk_curve(1 - answers.probabilities.max(axis=1), right),
        "uncertainty": risk_curve(answers.uncertainty, right),
    }
