"""CBR: class-balanced replay; within a class the samples stay at random."""

from __future__ import annotations

from ofcl.memory import Policy, random_key
from ofcl.methods.parts import PolicyParts


def policy(parts: PolicyParts) -> Policy:
    """A uniform sample of each class; drawn anew with every mini-batch if scores are, too.

    Drawn once on arrival, a class's samples stay with the same probability. Drawn with every
    mini-batch, as in the paper's released code, recent samples are favoured.
    """
    anew = parts.rescore == "every-batch"
    return Policy(random_key(parts.generator), rekey="every-batch" if anew else "never")
