"""The policies of the methods with a memory: ER, CBR, and those that keep samples by a score."""

from __future__ import annotations

from collections.abc import Callable

from ofcl.memory.choice import DIVERSE, SPREAD, Choice, weighted
from ofcl.memory.policy import KeyByScore, Policy, random_key
from ofcl.memory.ranks import Ranks
from ofcl.methods.parts import PolicyParts
from ofcl.uncertainty.scores import is_labelled


def reservoir(parts: PolicyParts) -> Policy:
    """Makes the policy of ER: a plain reservoir (Rolnick et al. 2019).

    Every sample of the stream stays with the same probability, whatever its class.

    Args:
        parts: The parts that policies are made from; a reservoir uses the random generator alone.
    """
    return Policy(random_key(parts.generator), balanced=False)


def class_balanced(parts: PolicyParts) -> Policy:
    """Makes the policy of CBR: a uniform sample of each class.

    The random key of a sample is drawn once, so all samples of a class stay with the same
    probability. With `rescore = "every-batch"` it is drawn anew with every mini-batch, as in the
    paper's released code; then recent samples are favoured.

    Args:
        parts: The parts that policies are made from; CBR uses the random generator and `rescore`.
    """
    anew = parts.rescore == "every-batch"
    return Policy(random_key(parts.generator), rekey="every-batch" if anew else "never")


def by_score(score: str) -> Callable[[PolicyParts], Policy]:
    """Returns a function that makes a class-balanced policy whose keys are a score.

    `PolicyParts.keep` says which samples of each class stay: the least uncertain (`bottom`), the
    most uncertain (`top`), a draw that prefers some (`weighted`), samples spread over the range of
    scores (`spread`), or samples that are far from each other (`diverse`). Scores that are compared
    by rank are computed once, on arrival.

    Args:
        score: The name of a score in `ofcl.uncertainty.scores`, or of a user's own.
    """

    def policy(parts: PolicyParts) -> Policy:
        """Makes the policy with the parts of one client."""
        scorer, top = parts.make_scorer(score), parts.keep == "top"
        by_rank = parts.scale == "rank"
        return Policy(
            KeyByScore(scorer, top),
            rekey="on-arrival" if by_rank else parts.rescore,
            scorer=scorer,
            labelled=is_labelled(score),
            choice=_choice(parts),
            ranks=Ranks(parts.seed) if by_rank else None,
            reversed=top,
        )

    return policy


def _choice(parts: PolicyParts) -> Choice:
    """Returns the way to choose among the samples of a class that `keep` names."""
    match parts.keep:
        case "weighted":
            return weighted(parts.beta, parts.seed)
        case "spread":
            return SPREAD
        case "diverse":
            return DIVERSE
        case "bottom" | "top":
            return Choice()
