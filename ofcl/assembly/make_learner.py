"""From settings to a learner: model, optimiser, perturbations, memory, or a generative method."""

from __future__ import annotations

import functools
import inspect

import torch
from torch import nn

from ofcl.assembly.chosen_method import chosen_method
from ofcl.compute.optimizers import SGD, Adam
from ofcl.data.dataset import Dataset
from ofcl.errors import OfclError
from ofcl.memory.memory import Memory
from ofcl.memory.policy import Policy
from ofcl.methods.augmentations import FlipAndRotate, FlipAndShift, Noise
from ofcl.methods.distillation import Distillation
from ofcl.methods.learner import Learner
from ofcl.methods.losses import Contrast, find_loss
from ofcl.methods.parts import GenerativeParts, LearnerParts, PolicyParts
from ofcl.methods.proximal import ProximalTerm
from ofcl.methods.replay import Replay
from ofcl.models import ModelSize, find_model
from ofcl.models.adapted import Adapted
from ofcl.models.head import FEWEST_CLASSES, outputs
from ofcl.own_parts.lookup import find_function, find_part, takes
from ofcl.pretrained.tokens import find_tokeniser
from ofcl.pretrained.tuning import Tuning
from ofcl.seeds import derive, generator, private
from ofcl.settings.schema import NAMES, Settings
from ofcl.state import COMPANION
from ofcl.uncertainty.change import Change, Perturbation
from ofcl.uncertainty.perturbations import ImageViews, MaskedCopies, NoisyCopies
from ofcl.uncertainty.scorer import Scorer
from ofcl.uncertainty.scores import find_score


def build_model(settings: Settings, dataset: Dataset, classes: int | None = None) -> nn.Module:
    """Builds the initial model, the same for all clients and the server, with its companion.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        classes: How many outputs the model starts with; None: as many as the dataset has labels.
    """
    classes = max(len(dataset.labels) if classes is None else classes, FEWEST_CLASSES)
    size = ModelSize(
        dataset.shape,
        classes,
        settings.width,
        settings.hidden,
        dataset.mean,
        dataset.std,
        build_tuning(settings),
    )
    with private(settings.seed, "model"):
        model = find_model(settings.model).build(size)
        if (companion := chosen_method(settings).companion) is not None:
            model.add_module(COMPANION, companion(model))
    # Images are faster with their channels last; modules without images do not mind.
    return model.to(dataset.x_train.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def build_tuning(settings: Settings) -> Tuning:
    """Collects how a pretrained network learns; other networks do not look at it.

    Args:
        settings: The run's settings.
    """
    return Tuning(
        settings.tune,
        settings.lora_rank,
        settings.backbone_side,
        settings.recompute,
        settings.weights,
        settings.backbone,
    )


def build_learner(settings: Settings, dataset: Dataset, number: int, model: nn.Module) -> Learner:
    """Builds the method's learner for one client: a generative one, or replay from a memory.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        number: The client's number, which is part of the seeds of its random generators.
        model: The client's model.
    """
    learner: Learner
    if isinstance(model, Adapted):
        model.seed(derive(settings.seed, "dropout", number))
    method = chosen_method(settings)
    if method.generative is not None:
        parts = generative_parts(settings, dataset, model, "generative", number)
        learner = method.generative.client(parts)
    elif method.learner is not None:
        learner = method.learner(learner_parts(settings, dataset, number, model))
    else:
        learner = build_replay(settings, dataset, number, model)()
    if settings.aggregation == "fedprox":
        learner.penalty = ProximalTerm(model, settings.mu, settings.proximal)
    return learner


def generative_parts(
    settings: Settings, dataset: Dataset, model: nn.Module, *purpose: str | int
) -> GenerativeParts:
    """Collects the parts that a generative method is built from, at a client or at the server.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        model: The model of this client or of the server.
        purpose: The name of the method's random generator and, at a client, the client's number.
    """
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
        target_kd=settings.target_kd,
    )


def learner_parts(
    settings: Settings, dataset: Dataset, number: int, model: nn.Module
) -> LearnerParts:
    """Collects the parts that a method's own learner is made from.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        number: The client's number, which is part of the seeds of its random generators.
        model: The client's model.
    """
    replay = build_replay(settings, dataset, number, model)
    return LearnerParts(
        replay=replay,
        model=model,
        make_optimizer=lambda: build_optimizer(settings, model),
        memory=replay.keywords["memory"],
        loss=replay.keywords["loss"],
        generator=generator(settings.seed, "method", number),
        augment=replay.keywords["augment"],
        capture=replay.keywords["capture"],
        temperature=settings.temperature,
        moment="round" if settings.streams and settings.task is None else settings.moment,
        der_alpha=settings.der_alpha,
        der_beta=settings.der_beta,
        mir_candidates=settings.mir_candidates,
        fitting_epochs=settings.fitting_epochs,
        lwf_weight=settings.lwf_weight,
        ewc_weight=settings.ewc_weight,
        class_counts=settings.class_counts,
        tau_old=settings.tau_old,
        tau_new=settings.tau_new,
        omega_old=settings.omega_old,
        omega_new=settings.omega_new,
        glfc_rise=settings.glfc_rise,
    )


def build_replay(
    settings: Settings, dataset: Dataset, number: int, model: nn.Module
) -> functools.partial[Replay]:
    """Collects the parts of the learner that most methods share; calling the result builds it.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, or a dataset without samples that has their form.
        number: The client's number, which is part of the seeds of its random generators.
        model: The client's model.
    """
    return functools.partial(
        Replay,
        model=model,
        optimizer=build_optimizer(settings, model),
        loss=find_loss(settings.loss),
        memory=_memory(settings, dataset, number, model),
        generator=generator(settings.seed, "augmentation", number),
        steps=settings.steps,
        replay="all" if settings.joint else settings.replay,  # of one task, none would be past
        ratio=settings.replay_ratio,
        augment=build_augmentation(settings, dataset),
        augmented=settings.augmented,
        contrast=Contrast(settings.contrast, settings.temperature) if settings.contrast else None,
        distillation=Distillation(model, settings.distil) if settings.distil else None,
        test_first=settings.test_first or bool(settings.streams),
        precision=getattr(torch, settings.precision),
        capture=capturable(model, settings.optimizer),
    )


def capturable(model: nn.Module, optimizer: str) -> bool:
    """Says whether a GPU may replay a model's gradient steps from a graph.

    Args:
        model: The model.
        optimizer: The name of its optimiser; one of a user's own may need the CPU in each step.
    """
    varies = isinstance(model, Adapted) and (model.draws or model.recomputes)
    return not varies and optimizer in NAMES["optimizer"]


def _memory(settings: Settings, dataset: Dataset, number: int, model: nn.Module) -> Memory | None:
    """Builds the memory of one client; None for the method without a memory.

    Args:
        settings: The run's settings, resolved.
        dataset: The run's data, which limit the memory's size unless they are a stream.
        number: The client's number, which is part of the seeds of its random generators.
        model: The client's model, by which samples are scored.
    """
    policy = chosen_method(settings).policy
    if policy is None:
        return None

    def make_scorer(score: str) -> Scorer:
        """Makes the scorer for the name of a score."""
        return Scorer(
            model,
            find_score(score, settings.score_average),
            as_of=settings.scoring_model,
            perturb=build_perturbation(settings, dataset),
            mode=settings.scoring_mode,
            generator=generator(settings.seed, "perturbation", number),
            lot=(settings.batch_size + 1) // 2,
        )

    parts = PolicyParts(
        generator=generator(settings.seed, "memory", number),
        make_scorer=make_scorer,
        keep=settings.keep,
        rescore=settings.rescore,
        beta=settings.keep_beta,
        scale=settings.score_scale,
        seed=derive(settings.seed, "keep", number),
        model=model,
        lr=settings.lr or 0.0,
        refed_steps=settings.refed_steps,
        refed_lambda=settings.refed_lambda,
        capture=capturable(model, settings.optimizer),
    )
    # There is never more to remember than there is; of a stream nobody knows how much that is.
    size = min(settings.memory, len(dataset.y_train) or settings.memory)
    made = policy(parts)
    if not isinstance(made, Policy):
        raise OfclError(f"the policy '{settings.policy or settings.method}' must make an "
                        f"ofcl.Policy; it made a {type(made).__name__}")  # fmt: skip
    return Memory(
        size,
        made,
        parts.generator,
        settings.memory_rule,
        dataset.x_train.device,
        settings.memory_age,
        settings.memory_days,
        settings.replay_draw,
    )


def build_perturbation(settings: Settings, dataset: Dataset) -> Perturbation:
    """Builds the perturbation that makes copies of samples for scores, by the kind of the data.

    Args:
        settings: The run's settings.
        dataset: The run's data, or a dataset without samples that has their form.
    """
    if dataset.kind == "vector":
        return NoisyCopies(settings.noise_std, settings.noise_copies)
    if dataset.kind == "tokens":
        known = find_tokeniser(settings.model, settings.weights)
        return MaskedCopies(
            settings.hidden_tokens, settings.noise_copies, known.mask, known.padding
        )
    return ImageViews(
        settings.perturbations,
        mean=dataset.mean,
        std=dataset.std,
        draws=settings.draws,
        pixels=settings.pixels,
        interpolation=settings.interpolation,
    )


def build_augmentation(settings: Settings, dataset: Dataset) -> Change | None:
    """Builds the augmentation that changes samples in gradient steps.

    Args:
        settings: The run's settings.
        dataset: The run's data, or a dataset without samples that has their form.

    Returns:
        The augmentation; None if the settings name none, or none for this kind of data.
    """
    match settings.augment, dataset.kind:
        case "flip-rotate", "image":
            return FlipAndRotate(settings.draws, settings.interpolation)
        case (("flip-shift" | "strong"), "image"):
            return FlipAndShift(colours=settings.augment == "strong")
        case (("noise" | "strong"), "vector"):
            return Noise(settings.augment_noise)
    if settings.augment in NAMES["augment"]:
        return None
    part = find_part("augment", settings.augment, {})
    change = part() if inspect.isclass(part) or inspect.isfunction(part) else part
    if not isinstance(change, Change):
        raise OfclError(
            f"the augmentation '{settings.augment}' must be an ofcl.uncertainty.change.Change; it "
            f"is a {type(change).__name__}"
        )
    return change


def build_optimizer(settings: Settings, model: nn.Module) -> torch.optim.Optimizer:
    """Builds the optimiser of a client's model.

    Args:
        settings: The run's settings, resolved.
        model: The client's model.
    """
    assert settings.lr is not None  # resolved
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not learning:
        raise OfclError(f"the model '{settings.model}' has no parameter that learns")
    if settings.optimizer == "sgd":
        return SGD(learning, lr=settings.lr)
    if settings.optimizer != "adam":
        return _own_optimizer(settings.optimizer, learning, settings.lr)
    if learning[0].is_cuda:  # there, a captured step counts on the device
        return torch.optim.Adam(learning, lr=settings.lr, fused=True, capturable=True)
    return Adam(learning, lr=settings.lr)


def _own_optimizer(name: str, parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """Builds an optimiser of a user's own.

    Args:
        name: The name that the settings have.
        parameters: The parameters that learn.
        lr: The learning rate.
    """
    make = find_function("optimizer", name, {})
    if not takes(make, parameters, lr=lr):
        raise OfclError(f"the optimizer '{name}' must take the parameters, and lr by its name")
    made = make(parameters, lr=lr)
    if not isinstance(made, torch.optim.Optimizer):
        raise OfclError(f"the optimizer '{name}' must make a torch.optim.Optimizer; it made a "
                        f"{type(made).__name__}")  # fmt: skip
    return made
