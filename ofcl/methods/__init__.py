"""The methods: how a client learns from a mini-batch, and what it remembers.

All of the paper's own share one learner (`replay.py`) and differ only in the policy of their
memory. A new one is a file here and a line in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ofcl.memory import Policy
from ofcl.methods import cbr, er, scored
from ofcl.methods.parts import PolicyParts


@dataclass(frozen=True)
class Method:
    """A method by what its memory keeps; `policy` None means no memory at all."""

    summary: str
    policy: Callable[[PolicyParts], Policy] | None


METHODS: dict[str, Method] = {
    "none": Method("no memory: plain federated learning on the stream", None),
    "er": Method("experience replay from a reservoir", er.policy),
    "cbr": Method("class-balanced replay, at random within a class", cbr.policy),
    "lc": Method("class-balanced by least confidence", scored.by("lc")),
    "ms": Method("class-balanced by margin", scored.by("ms")),
    "rc": Method("class-balanced by ratio of confidence", scored.by("rc")),
    "en": Method("class-balanced by entropy", scored.by("en")),
    "bi": Method("class-balanced by Bregman information (the paper's)", scored.by("bi")),
}
"""Every method by name."""
