"""The party's side of a secure sum: four steps, each of which it takes once, on one request.

keys      makes two key pairs and signs the public halves: one for masks, one for letters
shares    checks the keys of all parties; splits its self mask and its mask key into shares, and
          encrypts a letter with a share of each for every other party
masked    opens the letters of the others; sends its update, weighted and masked; or, in fewer
          bytes, the change of its model
reveal    for every party, gives away its share of the self mask (if that party's vector has
          arrived) or of the mask key (if not), never both

A repeated request is answered alike; a step that is asked for in two ways is refused. All this is
part of the client's saved state, so it also holds for a party that was killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ofcl.errors import OfclError
from ofcl.models.head import grown, width
from ofcl.secure_sum.coding import Coding, SumCoder, as_tensors
from ofcl.secure_sum.fixed_point import encoded
from ofcl.secure_sum.identity import Identity
from ofcl.secure_sum.masking import FEWEST, mask, pair_seed, sign, threshold
from ofcl.secure_sum.primitives import SECRET, agreed, decrypt, encrypt, new_secret, public_of
from ofcl.secure_sum.shamir import BYTES, joined, split
from ofcl.secure_sum.vectors import Vector
from ofcl.state import State
from ofcl.update import Update

STEPS = ("keys", "shares", "masked", "reveal")


@dataclass(frozen=True)
class SumRules:
    """The rules of a run's sums, as its terms say.

    Args:
        seed: The run's seed, from which missing outputs of a head are drawn.
        equal_weights: Whether all parties weigh the same, as shared noise needs it.
        fewest: The fewest parties of a sum; never less than `FEWEST`.
        coded: Whether changes may be sent in small integers (`coding`).
    """

    seed: int
    equal_weights: bool = False
    fewest: int = FEWEST
    coded: bool = False


class PartySum:
    """Takes a party's steps in the sums of a run.

    Args:
        number: The number of the party.
        identity: Its key, and the public keys of all parties; None: it has none, and refuses.
        rules: Gives the rules of the run's sums.
    """

    def __init__(
        self, number: int, identity: Identity | None, rules: Callable[[], SumRules]
    ) -> None:
        self._number, self._identity, self._rules = number, identity, rules
        self._state: State = {"sum": 0}
        self._coder: SumCoder | None = None  # of the request that is being answered

    def answer(
        self,
        run: str,
        request: State,
        update: Update,
        release: int,
        coder: SumCoder | None = None,
    ) -> State:
        """Takes the step that the server asks for.

        Args:
            run: The name of the run.
            request: The server's request: the number of the sum, the step, and what it needs.
            update: The party's update, which leaves only as a masked vector.
            release: The number of the update. The difference of two sums, one with and one without
                a party, would be that party's update; so an update is part of one sum at most.
            coder: Codes the change of the update's model; None: models are never coded.

        Raises:
            OfclError: If the step is refused; the error says why.
        """
        if self._identity is None:
            raise OfclError("the run asks for secure aggregation, and this party has no key for it")
        number, step = int(request["sum"]), str(request["step"])
        if step not in STEPS:
            raise OfclError(f"the server asks for the step {step!r} of a sum; there is none")
        if step == "keys" and number > self._state["sum"]:
            self._state = {"sum": number, "asked": {}, "spent": self._state.get("spent", 0)}
        if number != self._state["sum"]:
            raise OfclError(
                f"the server asks for sum {number}, and it is {self._state['sum']} here"
            )
        taken = self._state["asked"]
        digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        if taken.get(step, digest) != digest:
            raise OfclError(
                f"the server asks for the step '{step}' of sum {number} twice, and differently; "
                "that could show it this party's update, and is refused"
            )
        if not all(before in taken for before in STEPS[: STEPS.index(step)]):
            raise OfclError(f"the server asks for the step '{step}' of sum {number} out of order")
        if step == "masked" and step not in taken:
            if self._state["spent"] >= release:
                raise OfclError("the server asks for an update that has been part of a sum already")
            self._state["spent"] = release
        about = f"{run} {number}"
        self._coder = coder if self._rules().coded else None
        answer: State = getattr(self, f"_{step}")(about, request, update)
        taken[step] = digest
        return answer

    def _keys(self, about: str, request: State, update: Update) -> State:
        """Makes the key pairs of a sum, and signs them."""
        state, identity = self._state, self._identity
        assert identity is not None
        for name in ("letter_key", "mask_key"):
            state.setdefault(name, new_secret().hex())
        letters, masks = (public_of(_of(state, name)).hex() for name in ("letter_key", "mask_key"))
        text = signed_text(about, self._number, identity.party, letters, masks)
        state.setdefault("signature", identity.signed(text).hex())
        answer = {
            "letters": letters, "masks": masks, "signature": state["signature"],
            "outputs": width(update.state),
        }  # fmt: skip
        if self._coder is not None:
            answer |= {"weight": update.samples, "base": self._coder.base()}
        return answer

    def _shares(self, about: str, request: State, update: Update) -> State:
        """Checks the keys of all parties, and writes the letters with the shares."""
        state, me = self._state, self._number
        if "letters" in state:
            return {"letters": state["letters"], "commitment": _commitment(_of(state, "self_mask"))}
        keys = self._checked_keys(about, request["keys"])
        places, needed = [k + 1 for k in keys], threshold(len(keys))
        state["self_mask"] = new_secret().hex()
        of_mask = split(_of(state, "self_mask"), places, needed)
        of_key = split(_of(state, "mask_key"), places, needed)
        letters = {}
        for other in keys:
            content = of_mask[other + 1] + of_key[other + 1]
            if other == me:
                own = content.hex()
            else:
                key = self._letter_key(about, keys[other]["letters"])
                letters[str(other)] = encrypt(key, content, f"{about} {me} {other}").hex()
        state |= {"keys": {str(k): keys[k] for k in keys}, "letters": letters, "opened": {}}
        state["opened"][str(me)] = own
        return {"letters": letters, "commitment": _commitment(_of(state, "self_mask"))}

    def _checked_keys(self, about: str, given: State) -> dict[int, State]:
        """Checks that there are enough parties, and that each of them has signed its keys.

        Args:
            about: The run and the number of the sum.
            given: For the number of each party, its name, public keys and signature.
        """
        keys = {int(number): dict(given[number]) for number in given}
        fewest = max(FEWEST, self._rules().fewest)
        names = [entry["name"] for entry in keys.values()]
        if len(keys) < fewest or len(set(names)) < len(names):
            raise OfclError(
                f"a secure sum of {len(set(names))} parties is refused; {fewest} needed"
            )
        identity, own = self._identity, keys.get(self._number, {})
        assert identity is not None
        if own.get("masks") != public_of(_of(self._state, "mask_key")).hex():
            raise OfclError("the keys of this party are not among those of the sum")
        for number, entry in keys.items():
            text = signed_text(about, number, entry["name"], entry["letters"], entry["masks"])
            identity.check(entry["name"], text, bytes.fromhex(entry["signature"]))
        return dict(sorted(keys.items()))

    def _letter_key(self, about: str, public: str) -> bytes:
        """Computes the key of the letters between this party and the owner of a public key."""
        return agreed(_of(self._state, "letter_key"), bytes.fromhex(public), f"ofcl letter {about}")

    def _masked(self, about: str, request: State, update: Update) -> State:
        """Opens the letters of the others, and masks the update."""
        state, me, opened = self._state, self._number, {}
        keys = state["keys"]
        for sender, letter in request["letters"].items():
            if sender not in keys or int(sender) == me:
                raise OfclError(f"a letter of party {sender} came, which is not in the sum")
            key = self._letter_key(about, keys[sender]["letters"])
            try:
                text = f"{about} {sender} {me}"
                opened[sender] = decrypt(key, bytes.fromhex(letter), text).hex()
            except OfclError as error:
                raise OfclError(f"a letter of {keys[sender]['name']}: {error}") from None
        if len(opened) + 1 < threshold(len(keys)):
            raise OfclError(f"too few parties ({len(opened) + 1}) are left in the sum")
        state["opened"] |= opened
        coding = Coding.read(request["coding"], len(keys)) if "coding" in request else None
        vector = self._vector(update, int(request["outputs"]), len(keys), coding)
        vector = vector.plus(mask(_of(state, "self_mask"), vector))
        pairs = about if coding is None else f"{about} {coding.digest()}"
        for sender in opened:
            public = bytes.fromhex(keys[sender]["masks"])
            seed = pair_seed(_of(state, "mask_key"), public, pairs, me, int(sender))
            vector = vector.plus(mask(seed, vector), sign(me, int(sender)))
        return vector.state()

    def _vector(self, update: Update, outputs: int, parties: int, coding: Coding | None) -> Vector:
        """Makes the vector of the update, with as many outputs as all parties' vectors have."""
        rules, has = self._rules(), width(update.state)
        if outputs < has or outputs > has + 10_000:
            raise OfclError(f"the server asks for a head of {outputs} outputs; it is {has} here")
        weight = 1 if rules.equal_weights else update.samples
        reach = as_tensors(self._coder.reach()) if self._coder is not None else {}
        if coding is None:
            state = grown(update.state, outputs, rules.seed)
            return Vector(encoded({**state, **reach}, weight, parties))
        if self._coder is None:
            raise OfclError("the server asks for a coded sum, and the run's terms have none")
        if coding.base != self._coder.base() or weight > coding.weight:
            raise OfclError("the server has another model than this party, or too small a weight")
        share, most = weight / coding.weight, coding.most(weight)
        integers, others = self._coder.code(outputs, coding.steps, share, most)
        small = torch.cat([integers[name].flatten() for name in sorted(integers)])
        return Vector(encoded({**others, **reach}, weight, parties), small.to(coding.dtype))

    def _reveal(self, about: str, request: State, update: Update) -> State:
        """Gives away one share of every party: of its self mask, or of its mask key."""
        keys, opened = self._state["keys"], self._state["opened"]
        arrived = {str(int(number)) for number in request["arrived"]}
        if not arrived <= opened.keys() or str(self._number) not in arrived:
            raise OfclError("the server names other parties than those of the sum")
        if len(arrived) < threshold(len(keys)):
            raise OfclError(f"a sum of {len(arrived)} of {len(keys)} parties is refused")
        shares = {number: bytes.fromhex(content) for number, content in opened.items()}
        return {
            "self_masks": {k: shares[k][:BYTES].hex() for k in sorted(arrived)},
            "mask_keys": {k: shares[k][BYTES:].hex() for k in sorted(opened.keys() - arrived)},
        }

    def state(self) -> State:
        """Gives its state, for the client's checkpoint."""
        return {"number": self._state}

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: What `state` gave; empty at the beginning of a run.
        """
        self._state = state.get("number", {"sum": 0})


def _of(state: State, name: str) -> bytes:
    """Reads a secret of the state."""
    return bytes.fromhex(state[name])


def _commitment(secret: bytes) -> str:
    """Computes the checksum by which a self mask that was put together is recognised."""
    return hashlib.sha256(b"ofcl self mask" + secret).hexdigest()


def signed_text(about: str, number: int, name: str, letters: str, masks: str) -> str:
    """Makes the text that a party signs for its keys of a sum.

    Args:
        about: The run and the number of the sum.
        number: The number of the party.
        name: The name of the party.
        letters: Its public key for letters.
        masks: Its public key for masks.
    """
    return f"ofcl secure sum {about} {number} {name} {letters} {masks}"


def self_mask_of(shares: dict[int, bytes], commitment: str) -> bytes:
    """Puts the self mask of a party together from shares.

    Args:
        shares: As many shares as are needed, by the numbers of the parties that hold them.
        commitment: The checksum that the party has sent before.

    Raises:
        OfclError: If a share is wrong.
    """
    secret = joined({number + 1: share for number, share in shares.items()}, SECRET)
    if _commitment(secret) != commitment:
        raise OfclError("shares of a self mask are wrong")
    return secret
