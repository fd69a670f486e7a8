"""The methods: how a client learns from a mini-batch, and which samples it remembers.

Most methods share one learner (`replay`). Some differ in the policy of their memory alone
(`policies`); others add parts to the learner (`additions`), one file each (`field`). The generative
methods have a learner and a part at the server of their own (`generative`); `learner` is the
contract of all. A new method is a function in `policies`, or a file in `field`, or files in
`generative`, and a line in `METHODS`. `nearest_mean` is another classifier than the head.

May import `memory`, `uncertainty`, `models`, `data` and what is below them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from ofcl.errors import OfclError
from ofcl.memory.policy import Policy
from ofcl.methods import policies
from ofcl.methods.federated import fedcbdr_client, fedcbdr_view, glfc_client, refed_importance
from ofcl.methods.field import der, ewc, gdumb, icarl, lwf, mir, scr
from ofcl.methods.generative import (
    fedcil_client,
    fedcil_networks,
    fedcil_server,
    mfcl_client,
    mfcl_generator,
    mfcl_server,
    target_client,
    target_server,
)
from ofcl.methods.learner import Learner, ServerPart
from ofcl.methods.parts import GenerativeParts, LearnerParts, PolicyParts
from ofcl.models import ACGAN_NAME
from ofcl.own_parts.lookup import find_function, find_part


@dataclass(frozen=True)
class Generative:
    """A method that makes images of past classes instead of remembering samples.

    Args:
        client: Builds the method's learner for a client.
        server: Builds the method's part at the server.
        refuses: Takes the shape of an image (C, H, W); returns None if the method can make such
            images, else a few words about the images that it can make.
        model: The name of the model that the method needs; None: any that has features and a head.
    """

    client: Callable[[GenerativeParts], Learner]
    server: Callable[[GenerativeParts], ServerPart]
    refuses: Callable[[tuple[int, ...]], str | None]
    model: str | None = None


@dataclass(frozen=True)
class Method:
    """A method that settings can name; without `policy` and `generative` it has no memory.

    Args:
        summary: A few words about the method, for help texts.
        policy: Makes the policy of the method's memory; None: it has no memory.
        generative: The parts of a method that makes images; None: it makes none.
        score: The name of the score by which the memory keeps samples; None: by no score.
        learner: Makes the method's learner for a client; None: replay as it is.
        companion: Takes a model and makes a module that is added to it, under the name `companion`.
            Its tensors travel and are averaged as the model's are, at every client and the server;
            buffers called `head_weight` and `head_bias` grow with the head. None: nothing is added.
        server: Makes the method's part at the server; None: the server averages alone. Clients of
            such a method send tensors besides the model (`Learner.sends`).
        features: Whether what leaves tells of the features of samples; a party's policy may forbid
            that.
        sends: The things that leave a client besides the network's tensors, in a few words; empty:
            nothing else does.
    """

    summary: str
    policy: Callable[[PolicyParts], Policy] | None = None
    generative: Generative | None = None
    score: str | None = None
    learner: Callable[[LearnerParts], Learner] | None = None
    companion: Callable[[nn.Module], nn.Module] | None = None
    server: Callable[[GenerativeParts], ServerPart] | None = None
    features: bool = False
    sends: str = ""

    @property
    def server_part(self) -> Callable[[GenerativeParts], ServerPart] | None:
        """Makes the method's part at the server, of a generative method or another; often None."""
        return self.server if self.generative is None else self.generative.server


def scored(summary: str, score: str) -> Method:
    """Makes a method whose memory chooses, within each class, the samples to keep by their score.

    Args:
        summary: A few words about the method, for help texts.
        score: The name of the score in `ofcl.uncertainty.scores`.
    """
    return Method(summary, policies.by_score(score), score=score)


METHODS: dict[str, Method] = {
    "none": Method("no memory: plain federated learning on the stream", None),
    "er": Method("experience replay from a reservoir", policies.reservoir),
    "cbr": Method("class-balanced replay, at random within a class", policies.class_balanced),
    "lc": scored("class-balanced by least confidence", "lc"),
    "ms": scored("class-balanced by margin", "ms"),
    "rc": scored("class-balanced by ratio of confidence", "rc"),
    "en": scored("class-balanced by entropy", "en"),
    "bi": scored("class-balanced by Bregman information (the paper's)", "bi"),
    "loss": scored("class-balanced by the mean loss of perturbed copies", "loss"),
    "der": Method("DER++: logits are remembered too", policies.reservoir, learner=der.learner),
    "scr": Method(
        "supervised contrastive replay, nearest mean",
        policies.reservoir,
        learner=scr.learner,
        companion=scr.projection,
        sends="the projection of features; sums of its features by class",
    ),
    "mir": Method("replays what a step would hurt most", policies.reservoir, learner=mir.learner),
    "gdumb": Method(
        "learns from a class-balanced memory alone, at tests",
        policies.class_balanced,
        learner=gdumb.learner,
    ),
    "icarl": Method(
        "herding, nearest mean, distillation",
        icarl.policy,
        learner=icarl.learner,
        sends="sums of its features by class",
    ),
    "lwf": Method("no memory: distillation from the last global model", learner=lwf.learner),
    "ewc": Method(
        "no memory: important weights stay near their old values",
        learner=ewc.learner,
        companion=ewc.Importance,
        sends="the importance of each weight",
    ),
    "mfcl": Method(
        "no memory: the server trains a generator of past classes' images (Babakniya et al.)",
        generative=Generative(mfcl_client.client, mfcl_server.server, mfcl_generator.refuses),
    ),
    "fedcil": Method(
        "no memory: every client trains a generator, the server consolidates them (Qi et al.)",
        generative=Generative(
            fedcil_client.client, fedcil_server.server, fedcil_networks.refuses, ACGAN_NAME
        ),
    ),
    "refed": Method(
        "class-balanced by importance to a personalised model (Re-Fed, Li et al.)",
        refed_importance.by_importance,
    ),
    "fedcbdr": Method(
        "drawn by leverage in a global view, temperatures by task (FedCBDR, Qi et al.)",
        fedcbdr_view.by_leverage,
        learner=fedcbdr_client.learner,
        companion=fedcbdr_client.Parts,
        features=True,
        sends="mean products of the memory's features, and the share of each class",
    ),
    "glfc": Method(
        "gradient compensation and relation distillation (GLFC, Dong et al.)",
        policies.class_balanced,
        learner=glfc_client.learner,
    ),
    "target": Method(
        "no memory: the server makes images of past classes from the model (TARGET, Zhang et al.)",
        generative=Generative(target_client.client, target_server.server, mfcl_generator.refuses),
        sends="the classes of the task",
    ),
}
"""Every method of this package by name."""


def find_method(name: str, policy: str | None = None, score: str | None = None) -> Method:
    """Finds a method: of this package, of an installed one, by a path to code, or handed over.

    Args:
        name: The name of the method.
        policy: The name of a user's own memory policy, in place of the method's; None: the
            method's.
        score: The name of the score by which the memory keeps samples; None: the method's, if any.

    Raises:
        OfclError: If a part is unknown, or the method has no memory that these could be for.
    """
    method = find_part("method", name, METHODS)
    if not isinstance(method, Method):
        raise OfclError(f"the method '{name}' must be an ofcl.methods.Method; it is a "
                        f"{type(method).__name__}")  # fmt: skip
    if (policy or score) and method.policy is None:
        raise OfclError(f"{'policy' if policy else 'score'} is for methods with a memory; {name} "
                        "has none: --method cbr")  # fmt: skip
    if score is not None:
        method = replace(method, policy=policies.by_score(score), score=score)
    if policy is not None:
        method = replace(method, policy=find_function("policy", policy, {}))
    return method
