"""The paper's methods: class-balanced replay, within a class by predictive uncertainty."""

from __future__ import annotations

from collections.abc import Callable

from ofcl.memory import Policy
from ofcl.methods.parts import PolicyParts


def by(score: str) -> Callable[[PolicyParts], Policy]:
    """The policy that keeps the least uncertain of each class (`bottom`) or the most (`top`)."""

    def policy(parts: PolicyParts) -> Policy:
        sign, scorer = 1 if parts.keep == "bottom" else -1, parts.make_scorer(score)
        return Policy(lambda x: sign * scorer.uncertainty_of(x), rekey=parts.rescore, scorer=scorer)

    return policy
