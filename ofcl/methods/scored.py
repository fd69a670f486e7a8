"""The paper's methods: class-balanced replay, within a class by predictive uncertainty."""

from __future__ import annotations

from collections.abc import Callable

from ofcl.memory import Key, Policy
from ofcl.methods.parts import PolicyParts


def by(score: str) -> Callable[[PolicyParts], Policy]:
    """The policy that keeps the least uncertain of each class (`bottom`) or the most (`top`)."""

    def policy(parts: PolicyParts) -> Policy:
        scorer = parts.make_scorer(score)
        keys: dict[str, Key] = {  # the method is looked up when asked: `ofcl bench` watches it
            "bottom": lambda x: scorer.uncertainty_of(x),
            "top": lambda x: -scorer.uncertainty_of(x),
        }
        return Policy(keys[parts.keep], rekey=parts.rescore, scorer=scorer)

    return policy
