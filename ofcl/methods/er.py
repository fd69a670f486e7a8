"""ER: experience replay from a plain reservoir (Rolnick et al. 2019)."""

from __future__ import annotations

from ofcl.memory import Policy, random_key
from ofcl.methods.parts import PolicyParts


def policy(parts: PolicyParts) -> Policy:
    """Every sample of the stream stays with the same probability, whatever its class."""
    return Policy(random_key(parts.generator), balanced=False)
