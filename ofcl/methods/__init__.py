"""The methods: how a client learns from a mini-batch, and what it remembers.

All of the paper's own share one learner (`replay.py`) and differ only in the policy of their
memory. The generative ones it compares with have a learner and a server's part of their own
(`learner.py` is the contract). A new one is a file here and a line in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ofcl.memory.policy import Policy
from ofcl.methods import policies
from ofcl.methods.generative import fedcil_client, fedcil_server, mfcl_client, mfcl_server
from ofcl.methods.learner import Learner, ServerPart
from ofcl.methods.parts import GenerativeParts, PolicyParts
from ofcl.models import ACGAN_NAME


@dataclass(frozen=True)
class Generative:
    """A method that makes images instead of remembering them."""

    client: Callable[[GenerativeParts], Learner]
    server: Callable[[GenerativeParts], ServerPart]
    refuses: Callable[[tuple[int, ...]], str | None]  # an image's shape → what is wrong with it
    model: str | None = None  # None: any that has features and a head


@dataclass(frozen=True)
class Method:
    """A method by what its memory keeps, or how it does without one."""

    summary: str
    policy: Callable[[PolicyParts], Policy] | None = None
    generative: Generative | None = None


METHODS: dict[str, Method] = {
    "none": Method("no memory: plain federated learning on the stream", None),
    "er": Method("experience replay from a reservoir", policies.reservoir),
    "cbr": Method("class-balanced replay, at random within a class", policies.class_balanced),
    "lc": Method("class-balanced by least confidence", policies.by_score("lc")),
    "ms": Method("class-balanced by margin", policies.by_score("ms")),
    "rc": Method("class-balanced by ratio of confidence", policies.by_score("rc")),
    "en": Method("class-balanced by entropy", policies.by_score("en")),
    "bi": Method("class-balanced by Bregman information (the paper's)", policies.by_score("bi")),
    "mfcl": Method(
        "no memory: the server trains a generator of past classes' images (Babakniya et al.)",
        generative=Generative(mfcl_client.client, mfcl_server.server, mfcl_client.refuses),
    ),
    "fedcil": Method(
        "no memory: every client trains a generator, the server consolidates them (Qi et al.)",
        generative=Generative(
            fedcil_client.client, fedcil_server.server, fedcil_client.refuses, ACGAN_NAME
        ),
    ),
}
"""Every method by name."""
