"""The paper's methods: class-balanced replay, within a class by predictive uncertainty."""

from __future__ import annotations

from collections.abc import Callable

from ofcl.memory import Key, Policy
from ofcl.methods.parts import PolicyParts


def by(score: str) -> Callable[[PolicyParts], Policy]:
    """The policy that keeps the least uncertain of each class (`bottom`) or the most (`top`)."""

    def policy(parts: PolicyParts) -> Policy:
        scorer = parts.make_scorer(score)
        score_of: Key = scorer.uncertainty_of  # those with the smallest keys stay
        key = score_of if parts.keep == "bottom" else lambda x: -score_of(x)
        return Policy(key, rekey=parts.rescore, scorer=scorer)

    return policy
