"""The parts that methods are made from: of a memory policy, a learner, a generative method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ofcl.memory.memory import Memory
from ofcl.memory.policy import Rekey
from ofcl.methods.losses import Loss
from ofcl.methods.replay import Replay
from ofcl.uncertainty.change import Change
from ofcl.uncertainty.scorer import Scorer

Keep = Literal["bottom", "top", "weighted", "spread", "diverse"]
"""Which samples of a class stay: the least uncertain, the most uncertain, a weighted draw, spread
over the range of scores, or far from each other."""


@dataclass(frozen=True)
class PolicyParts:
    """The parts that a memory policy is made from, at one client.

    Args:
        generator: The random generator of random keys.
        make_scorer: Takes the name of a score; returns its scorer.
        keep: Which samples of a class stay, by their score (`methods.policies.by_score`).
        rescore: When samples that are remembered are scored again (`memory.policy.Rekey`).
        beta: The power β of the score with `keep = "weighted"`; below 0, uncertain samples are
            preferred.
        scale: `raw`: scores are compared as they are; `rank`: by their rank among samples of the
            same class that came between the same two rounds.
        seed: The seed of draws that belong to a sample, different for each client.
        model: The client's model, for policies that follow it without a scorer.
        lr: The learning rate of the client's model.
        refed_steps: Re-Fed: the steps along which importance is added up.
        refed_lambda: Re-Fed: the share λ of the client's own data in the personalised model.
        capture: Whether a GPU may replay what the model computes from a graph (`Replay.capture`).
    """

    generator: torch.Generator
    make_scorer: Callable[[str], Scorer]
    keep: Keep = "bottom"
    rescore: Rekey = "every-round"
    beta: float = -0.5
    scale: Literal["raw", "rank"] = "raw"
    seed: int = 0
    model: nn.Module | None = None
    lr: float = 0.1
    refed_steps: int = 5
    refed_lambda: float = 0.5
    capture: bool = True


Moment = Literal["task", "round"]
"""When the last global model becomes the teacher or the anchor of a method: as a task ends, or
after every round."""


@dataclass(frozen=True)
class LearnerParts:
    """The parts that a method's learner is made from, at one client.

    Args:
        replay: Makes the learner that the methods with a memory share; its keyword arguments are
            fields of `Replay`, in place of those that the run's settings give.
        model: The client's model, with its companion if the method has one.
        make_optimizer: Makes an optimiser of the model.
        memory: The client's memory; None: the method has no policy.
        loss: The run's loss.
        generator: A random generator for the method's own draws.
        augment: Changes samples at random; None: they stay as they are.
        capture: Whether a GPU may replay gradient steps from a graph (`Replay.capture`).
        temperature: The temperature of a contrastive loss.
        moment: When the last global model becomes a teacher or an anchor.
        der_alpha: DER++: the weight of the squared distance from remembered logits.
        der_beta: DER++: the weight of the loss of replayed samples.
        mir_candidates: MIR: the samples among which it chooses.
        fitting_epochs: GDumb: passes over the memory at an evaluation.
        lwf_weight: LwF: the weight of the distillation.
        ewc_weight: EWC: the weight of the penalty.
        class_counts: FedCBDR: whether the client tells the shares of its classes.
        tau_old: FedCBDR: the temperature of old classes' logits.
        tau_new: FedCBDR: the temperature of the logits of the task's classes.
        omega_old: FedCBDR: the weight of samples of old classes.
        omega_new: FedCBDR: the weight of samples of the task's classes.
        glfc_rise: GLFC: the rise of the entropy by which new classes are noticed.
    """

    replay: Callable[..., Replay]
    model: nn.Module
    make_optimizer: Callable[[], torch.optim.Optimizer]
    memory: Memory | None
    loss: Loss
    generator: torch.Generator
    augment: Change | None = None
    capture: bool = True
    temperature: float = 0.1
    moment: Moment = "task"
    der_alpha: float = 0.1
    der_beta: float = 0.5
    mir_candidates: int = 50
    fitting_epochs: int = 256
    lwf_weight: float = 1.0
    ewc_weight: float = 100.0
    class_counts: bool = True
    tau_old: float = 0.9
    tau_new: float = 1.1
    omega_old: float = 1.1
    omega_new: float = 0.9
    glfc_rise: float = 1.2


@dataclass(frozen=True)
class GenerativeParts:
    """The parts that a generative method is made from, at a client or at the server.

    Args:
        model: The model of this client or of the server.
        make_optimizer: Makes an optimiser of the model.
        generator: The random generator of the method.
        seed: The run's seed, from which the image generator's first weights are drawn.
        shape: The shape of an image (C, H, W).
        classes: The number of classes.
        mean: The mean of each channel, with which images are normalised.
        std: The standard deviation of each channel, with which images are normalised.
        width: Channels of the first block of the model; image generators are scaled with it.
        steps: Gradient steps for each mini-batch.
        augment: Changes new images in the steps after the first; None: they stay as they are.
        synthetic: MFCL, TARGET: made images in each gradient step of a client.
        generator_steps: MFCL, TARGET: gradient steps of the server's generator at the end of a
            task.
        generator_labels: MFCL: how a made image gets its class (`mfcl_losses.Labels`).
        consolidation: FedCIL: steps of the server's critic and generator after each round.
        consistency: FedCIL: the weight of the terms of consistency with the server.
        gan_lr: FedCIL: the learning rate of critic and generator.
        target_kd: TARGET: the weight of a client's distillation.
    """

    model: nn.Module
    make_optimizer: Callable[[], torch.optim.Optimizer]
    generator: torch.Generator
    seed: int
    shape: tuple[int, ...]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    width: int
    steps: int
    augment: Change | None
    synthetic: int
    generator_steps: int
    generator_labels: Literal["teacher", "noise"]
    consolidation: int
    consistency: float
    gan_lr: float
    target_kd: float = 25.0


def shown(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Brings normalised images back to values from 0 to 1, on the CPU, for people to look at.

    Args:
        images: The normalised images (n, C, H, W).
        mean: The mean of each channel, with which they were normalised.
        std: The standard deviation of each channel, with which they were normalised.
    """
    means, deviations = (torch.tensor(v, device=images.device).view(-1, 1, 1) for v in (mean, std))
    return (images * deviations + means).clamp(0, 1).cpu()
