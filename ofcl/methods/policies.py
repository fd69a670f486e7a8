"""The policies of the methods with a memory: ER, CBR, and those that keep samples by a score."""

from __future__ import annotations

from collections.abc import Callable

from ofcl.memory.policy import Key, Policy, random_key
from ofcl.methods.parts import PolicyParts


def reservoir(parts: PolicyParts) -> Policy:
    """Makes the policy of ER: a plain reservoir (Rolnick et al. 2019).

    Every sample of the stream stays with the same probability, whatever its class.
    """
    return Policy(random_key(parts.generator), balanced=False)


def class_balanced(parts: PolicyParts) -> Policy:
    """Makes the policy of CBR: a uniform sample of each class.

    The random key of a sample is drawn once, so all samples of a class stay with the same
    probability. With `rescore = "every-batch"` it is drawn anew with every mini-batch, as in the
    paper's released code; then recent samples are favoured.
    """
    anew = parts.rescore == "every-batch"
    return Policy(random_key(parts.generator), rekey="every-batch" if anew else "never")


def by_score(score: str) -> Callable[[PolicyParts], Policy]:
    """Returns a function that makes the policy of one of the paper's methods.

    Of each class, the least uncertain samples stay (`bottom`), or the most uncertain (`top`).

    Args:
        score: The name of a score in `ofcl.uncertainty.scores.SCORES`.
    """

    def policy(parts: PolicyParts) -> Policy:
        scorer = parts.make_scorer(score)
        keys: dict[
            str, Key
        ] = {  # `ofcl bench` replaces the method, so it is looked up in each call
            "bottom": lambda x: scorer.uncertainty_of(x),
            "top": lambda x: -scorer.uncertainty_of(x),
        }
        return Policy(keys[parts.keep], rekey=parts.rescore, scorer=scorer)

    return policy
