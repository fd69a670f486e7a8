"""Taking the masks off the sum of vectors, with the shares that parties have revealed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from ofcl.errors import OfclError
from ofcl.secure_sum.coding import Coding
from ofcl.secure_sum.masking import mask, pair_seed, sign, threshold
from ofcl.secure_sum.party_sum import self_mask_of
from ofcl.secure_sum.primitives import SECRET, public_of
from ofcl.secure_sum.shamir import joined
from ofcl.secure_sum.vectors import Vector
from ofcl.state import State


def unmasked(answers: State, about: str, coding: Coding | None) -> Vector:
    """Adds up the masked vectors, and takes the masks off the sum.

    Args:
        answers: The answers of all steps.
        about: The run and the number of the sum.
        coding: The steps of the sum, on which pairwise masks depend; None: models were sent.

    Raises:
        OfclError: If there are too few right shares.
    """
    vectors, reveals = answers["masked"], answers["reveal"]
    total = functools.reduce(Vector.plus, map(Vector.read, vectors.values()))
    needed = threshold(len(answers["keys"]))
    for party in vectors:
        held = {int(k): bytes.fromhex(answer["self_masks"][party])
                for k, answer in reveals.items()}  # fmt: skip
        commitment = answers["shares"][party]["commitment"]
        seed = _from_enough(held, needed, functools.partial(self_mask_of, commitment=commitment))
        total = total.plus(mask(seed, total), -1)
    pairs = about if coding is None else f"{about} {coding.digest()}"
    for lost in sorted(answers["shares"].keys() - vectors.keys(), key=int):
        held = {int(k): bytes.fromhex(answer["mask_keys"][lost])
                for k, answer in reveals.items()}  # fmt: skip
        public = answers["keys"][lost]["masks"]
        key = _from_enough(held, needed, functools.partial(_mask_key_of, public=public))
        for party in vectors:
            other = bytes.fromhex(answers["keys"][party]["masks"])
            seed = pair_seed(key, other, pairs, int(lost), int(party))
            total = total.plus(mask(seed, total), -sign(int(party), int(lost)))
    return total


def _mask_key_of(shares: Mapping[int, bytes], public: str) -> bytes:
    """Puts the mask key of a party together from shares.

    Args:
        shares: As many shares as are needed, by the numbers of the parties that hold them.
        public: The public half of the key.
    """
    secret = joined({number + 1: share for number, share in shares.items()}, SECRET)
    if public_of(secret).hex() != public:
        raise OfclError("shares of a mask key are wrong")
    return secret


def _from_enough(
    shares: Mapping[int, bytes], needed: int, join: Callable[[dict[int, bytes]], bytes]
) -> bytes:
    """Puts a secret together from as many shares as are needed, or from others if one is wrong.

    Args:
        shares: The shares by the numbers of the parties that hold them.
        needed: How many are needed.
        join: Puts so many shares together; it raises an error if one is wrong.
    """
    holders = sorted(shares)
    failure = OfclError("there are too few shares")
    for start in range(len(holders) - needed + 1):
        try:
            return join({k: shares[k] for k in holders[start : start + needed]})
        except OfclError as error:
            failure = error
    raise failure
