"""The server's side of a secure sum: collects the parties' answers and unmasks their sum.

It holds masked vectors, letters that it cannot open, and shares: of each party those of its self
mask, or those of its mask key. From these it computes the sum alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ofcl.errors import OfclError
from ofcl.models.head import grown
from ofcl.secure_sum.coding import Coding
from ofcl.secure_sum.masking import FEWEST, threshold
from ofcl.secure_sum.party_sum import STEPS
from ofcl.secure_sum.primitives import SECRET
from ofcl.secure_sum.shamir import BYTES
from ofcl.secure_sum.shared_steps import SharedSteps
from ofcl.secure_sum.unmasking import unmasked
from ofcl.secure_sum.vectors import Vector
from ofcl.state import State, Tensors, nbytes
from ofcl.update import Update

OF_KEYS = ("letters", "masks", "signature", "outputs")
"""The parts of a party's first answer that all parties of a sum hear."""


class ServerSum:
    """Leads the secure sums of a run, one at a time.

    Args:
        run: The name of the run, which masks depend on.
        template: Tensors with the names, shapes and types of an update's.
        names: The names of the parties.
        classes: Gives the number of outputs that a head may have now.
        seed: The run's seed, from which missing outputs of a head are drawn.
        fewest: The fewest parties of a sum; never less than `FEWEST`.
        checksum: Computes the checksum of a global model, from which parties count the changes that
            they send; None: they send their models.
        tell: Is given each line for the user.
    """

    def __init__(
        self,
        run: str,
        template: Tensors,
        names: Sequence[str],
        *,
        classes: Callable[[], int],
        seed: int,
        fewest: int = FEWEST,
        checksum: Callable[[Tensors], int] | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._run, self._template, self._names = run, template, list(names)
        self._classes = classes
        self._seed, self._fewest, self._tell = seed, max(FEWEST, fewest), tell
        self._number = 0
        self._open: State | None = None  # the sum that is going on
        self._steps = SharedSteps(template, checksum, seed)

    def begin(self, parties: Sequence[int], outputs: int, base: Tensors) -> None:
        """Begins a sum, unless one is going on since before a restart.

        Args:
            parties: The numbers of the parties that take part.
            outputs: How many outputs the head of the global model has.
            base: The global model.
        """
        self._steps.begin(base)
        if self._open is None:
            self._number += 1
            answers: State = {step: {} for step in STEPS}
            self._open = {"step": 0, "parties": list(parties), "outputs": outputs,
                          "answers": answers, "sent": 0}  # fmt: skip

    @property
    def over(self) -> bool:
        """Whether the sum has all answers that it needs."""
        return self._open is not None and self._open["step"] == len(STEPS)

    def requests(self) -> dict[int, State]:
        """Makes the requests of the current step, for the parties that have not answered it."""
        opened = self._opened()
        step, answers = STEPS[opened["step"]], opened["answers"]
        request: State = {"sum": self._number, "step": step}
        if step == "shares":
            signed = {k: {name: answers["keys"][k][name] for name in OF_KEYS}
                      for k in sorted(answers["keys"], key=int)}  # fmt: skip
            request["keys"] = {k: {**signed[k], "name": self._names[int(k)]} for k in signed}
        if step == "reveal":
            request["arrived"] = sorted(map(int, answers["masked"]))
        asked = opened["parties"] if step == "keys" else answers[STEPS[opened["step"] - 1]]
        missing = [int(k) for k in asked if str(k) not in answers[step]]
        if step != "masked":
            return dict.fromkeys(sorted(missing), request)
        if opened.get("coding"):
            request["coding"] = opened["coding"]
        letters = {k: answer["letters"] for k, answer in answers["shares"].items()}
        return {
            party: {
                **request,
                "letters": {k: letters[k][str(party)] for k in letters if int(k) != party},
                "outputs": opened["outputs"],
            }
            for party in sorted(missing)
        }

    def take(self, party: int, answer: Any) -> None:
        """Takes a party's answer to the current step.

        Args:
            party: The number of the party.
            answer: What the party has sent; it is not trusted.

        Raises:
            OfclError: If the answer cannot be right.
        """
        opened = self._opened()
        step = STEPS[opened["step"]]
        try:
            checked = getattr(self, f"_check_{step}")(answer, party)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OfclError(f"its answer to the step '{step}' of a sum cannot be read") from None
        opened["answers"][step][str(party)] = checked
        tensors = {k: v for k, v in checked.items() if isinstance(v, Tensor)}
        opened["sent"] += nbytes(tensors) + sum(len(str(v)) for v in checked.values()
                                                if not isinstance(v, Tensor))  # fmt: skip

    def _check_keys(self, answer: State, party: int) -> State:
        """Checks a party's public keys; the other parties check its signature."""
        outputs = answer["outputs"]
        if type(outputs) is not int or not 0 <= outputs <= max(self._classes(), 2):
            raise OfclError(f"its head has {outputs!r} outputs")
        for name, most in (("letters", SECRET), ("masks", SECRET), ("signature", 200)):
            if not 0 < len(bytes.fromhex(answer[name])) <= most:
                raise OfclError(f"its key for a sum ('{name}') cannot be")
        opened = self._opened()
        opened["outputs"] = max(opened["outputs"], outputs)
        kept = {name: answer[name] for name in OF_KEYS}
        return {**kept, **self._steps.read(answer)}

    def _check_shares(self, answer: State, party: int) -> State:
        """Checks that there is a letter of possible length for every other party."""
        others = {k for k in self._opened()["answers"]["keys"] if int(k) != party}
        letters = answer["letters"]
        if letters.keys() != others or len(bytes.fromhex(answer["commitment"])) != 32:
            raise OfclError("its letters are not one for every other party")
        if any(len(bytes.fromhex(letter)) > 2 * BYTES + 64 for letter in letters.values()):
            raise OfclError("its letters are too long")
        return {"letters": dict(letters), "commitment": answer["commitment"]}

    def _check_masked(self, answer: State, party: int) -> State:
        """Checks type and length of the parts of a masked vector."""
        came, wanted = Vector.read(answer), self._steps.form(self._like(), self._coding())
        for part, like in zip(came, wanted, strict=True):
            if not isinstance(part, Tensor) or part.dtype != like.dtype:
                raise OfclError("its masked vector is of another type")
            if part.shape != like.shape:
                raise OfclError(f"its masked vector has the shape {tuple(part.shape)}")
        return came.state()

    def _check_reveal(self, answer: State, party: int) -> State:
        """Checks that there is one share of every party, of the kind that was asked for."""
        answers = self._opened()["answers"]
        arrived, shared = answers["masked"].keys(), answers["shares"].keys()
        if answer["self_masks"].keys() != arrived or answer["mask_keys"].keys() != shared - arrived:
            raise OfclError("its shares are not those that were asked for")
        for share in [*answer["self_masks"].values(), *answer["mask_keys"].values()]:
            if len(bytes.fromhex(share)) != BYTES:
                raise OfclError("a share is of another length")
        return {name: dict(answer[name]) for name in ("self_masks", "mask_keys")}

    def advance(self, gone: Sequence[int] = ()) -> None:
        """Goes on to the next step if enough parties have answered this one.

        Args:
            gone: Parties that are not asked any more. If too few are left, the sum is given up.
        """
        opened = self._opened()
        step = STEPS[opened["step"]]
        parties, answers = len(opened["answers"]["keys"]), opened["answers"][step]
        needed = self._fewest if step == "keys" else threshold(parties)
        if len(answers) >= needed:
            opened["step"] += 1
            if step == "keys":
                opened["coding"] = self._steps.plan(answers)
        elif all(party in gone for party in self.requests()):
            self._tell(f"too few parties are left for the sum of round {self._number}")
            opened["step"], opened["given_up"] = len(STEPS), True

    def result(self) -> list[Update]:
        """Ends the sum, and gives the weighted mean of the updates as one update.

        Returns:
            The update of all parties together; empty if the sum was given up or is wrong.
        """
        opened = self._opened()
        mean: Tensors = {}
        weight, coding = 0, self._coding()
        arrived, keys = opened["answers"]["masked"], opened["answers"]["keys"]
        try:
            if not opened.get("given_up"):
                total = unmasked(opened["answers"], f"{self._run} {self._number}", coding)
                of_arrived = [keys[party] for party in arrived]
                mean, weight = self._steps.mean(total, self._like(), coding, of_arrived)
        except OfclError as error:
            self._tell(f"the sum of round {self._number} is left out: {error}")
            opened["given_up"] = True
        self._open = None
        if opened.get("given_up"):
            return []
        lost = [self._names[party] for party in opened["parties"] if str(party) not in arrived]
        if lost:
            self._tell(f"the sum of round {self._number} is without {' and '.join(lost)}")
        return [Update(0, mean, weight, {}, sent=opened["sent"])]

    def _coding(self) -> Coding | None:
        """Gives the steps of the sum that is going on; None: models are sent."""
        state = self._opened().get("coding")
        return Coding.read(state, len(self._opened()["answers"]["keys"])) if state else None

    def _like(self) -> Tensors:
        """Gives tensors of the form that the sum has."""
        return grown(self._template, self._opened()["outputs"], self._seed)

    def _opened(self) -> State:
        """Gives the sum that is going on."""
        assert self._open is not None, "no sum is going on"
        return self._open

    def state(self) -> State:
        """Gives the state of the sums, for a checkpoint."""
        return {"number": self._number, "open": self._open, "reach": self._steps.reach}

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: What `state` gave.
        """
        self._number, self._open = int(state["number"]), state["open"]
        self._steps.reach = dict(state.get("reach", {}))
