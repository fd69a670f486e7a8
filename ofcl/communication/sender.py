"""A client's model as it leaves the client: clipped, noisy, coded, or kept back."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch

from ofcl.communication.sharing import Sharing
from ofcl.compression.differences import Differences, decoded
from ofcl.compute.devices import all_to_device
from ofcl.errors import OfclError
from ofcl.models.head import grown, width
from ofcl.privacy import Draw, veiled
from ofcl.seeds import generator
from ofcl.state import State, Tensors, copied
from ofcl.update import is_statistic


class Sent(NamedTuple):
    """The tensors of an update.

    Args:
        state: The model that leaves, as the server will have it.
        coded: What travels in its place if it is coded; else empty.
        kept_back: Whether the global model leaves in place of the client's own.
    """

    state: Tensors
    coded: Tensors
    kept_back: bool


class Sender:
    """Makes the tensors of a client's updates, and reads those that come coded.

    Args:
        sharing: What is sent, and how.
        number: The client's number, for the draws of its noise.
        seed: The run's seed.

    Attributes:
        released: Updates that have left the client.
        fewest_new: An update with new samples, but fewer than these, is kept back; 0: none is.
        noise: The noise on updates, as a multiple of their change (`veiled`); 0: none. With
            differential privacy, a multiple of the clip, which is the longest change.
        last: The last update as it left, before it was coded, if it had such noise; else empty.
        withheld: The new samples that the last update was to have, and has not.
    """

    def __init__(self, sharing: Sharing, number: int, seed: int) -> None:
        self._sharing, self._seed = sharing, seed
        self.released = self.fewest_new = self.withheld = 0
        self.noise = 0.0
        self.last: Tensors = {}
        self._again = False  # whether an update would have nothing new since the last one
        self._new = 0  # samples since the last update
        self._start: Tensors = {}  # the global model that noisy updates are measured from
        self._noise = generator(seed, "privacy", number)
        self._draw: Draw = functools.partial(torch.randn, generator=self._noise)
        self._differences = Differences(sharing.codec, seed) if sharing.codec else None
        self._base: Tensors = {}  # the global model that came last, if updates are coded

    @property
    def coded(self) -> bool:
        """Whether updates and global models travel in coded form."""
        return self._differences is not None

    @property
    def keeps_back(self) -> bool:
        """Whether the model has new samples that no update has had, and too few for one."""
        return 0 < self._new < self.fewest_new

    def protect(self, noise: float, fewest_new: int, draw: Draw) -> None:
        """Sets the limits of a party, which hold for every run.

        Args:
            noise: The noise on updates (`noise`).
            fewest_new: The fewest new samples behind an update (`fewest_new`).
            draw: Draws normal numbers of a shape, for all noise: the server knows the run's seed,
                and must not know the noise (`ofcl.privacy.system_normal`).
        """
        self.noise, self.fewest_new, self._draw = noise, fewest_new, draw

    def decoded(self, model: Tensors, known: Tensors) -> Tensors:
        """Makes the global model from the coded step to it.

        Args:
            model: The step, as it has come.
            known: The global model that came before.
        """
        if self._sharing.codec is None:
            raise OfclError("a coded model came, and the run's settings say nothing of it")
        return decoded(model, known, self._sharing.codec, self._seed)

    def learned(self, samples: int) -> None:
        """Counts new samples that the model has learned.

        Args:
            samples: Their number.
        """
        self._new += samples
        self._again = False

    def measure_from(self, model: Tensors, names: Collection[str]) -> None:
        """Keeps a model, by the distance from which updates are clipped and made noisy.

        Args:
            model: The model.
            names: The tensors that travel.
        """
        if self._sharing.privacy is not None or self.noise:
            self._start = {name: model[name].detach().clone() for name in names}
        if self._sharing.mixing == 1.0:
            self._again = False  # nothing of the client's own is left in its model

    def received(self, model: Tensors, names: Collection[str]) -> None:
        """Notes that the client has taken a global model: what coding has lost is settled.

        Args:
            model: The global model.
            names: The tensors that travel.
        """
        if self._differences is not None:
            self._differences.settle(self._sharing.mixing)
            self._base = {name: model[name].detach().clone() for name in names}

    def send(self, own: Tensors, outputs: int, instead: Tensors | None = None) -> Sent:
        """Makes the tensors of an update, clipped and noisy as settings and limits say.

        Args:
            own: The tensors of the client's model that travel.
            outputs: How many outputs its head has.
            instead: The global model, which leaves if there are too few new samples behind the
                update (`fewest_new`); None: the update leaves in any case.
        """
        kept_back = self.keeps_back and instead is not None
        self.withheld = self._new if kept_back else 0
        if kept_back and instead is not None:
            wide = grown(instead, outputs, self._seed)
            state = copied({name: wide[name].detach() for name in own})
        else:
            state, self._new = copied(own), 0
        self.released += 1
        if self.noise and not kept_back:
            state = self._noisy(state, outputs, instead)
        elif self._sharing.privacy is not None:
            state = self._sharing.privacy.noised(state, self._from(state, outputs), self._draw)
        coded: Tensors = {}
        # The server knows no base of the first; a sum's are coded in steps that all share.
        if self._differences is not None and self._base and not self._sharing.summed:
            coded, state = self._differences.code(state, self._base)
        return Sent(state, coded, kept_back)

    def _from(self, state: Tensors, outputs: int) -> Tensors:
        """Gives the model that an update is measured from, with as many outputs as it has."""
        return grown(self._start, max(outputs, width(state)), self._seed)

    def _noisy(self, state: Tensors, outputs: int, known: Tensors | None) -> Tensors:
        """Adds the noise of the party's limits; asked twice, it gives the same.

        Two draws on one model would have a mean of less noise, and the server may ask often.

        Args:
            state: The client's model.
            outputs: How many outputs its head has.
            known: The global model, which stands in if a checkpoint has no model to measure from.
        """
        if self._again and self.last:
            return copied(grown(self.last, max(outputs, width(state)), self._seed))
        if not self._start:  # the head of the server's may have grown further
            begin = known or state
            self._start = {n: begin[n].detach()[: len(v)] if v.dim() else begin[n].detach()
                           for n, v in state.items()}  # fmt: skip
        start, privacy = self._from(state, outputs), self._sharing.privacy
        if privacy is not None:
            least = {n: self.noise / math.sqrt(max(v.numel(), 1)) for n, v in state.items()
                     if not is_statistic(n)}  # fmt: skip
            state = privacy.noised(state, start, self._draw, least if privacy.noise else {})
        if privacy is None or not privacy.noise:
            state |= veiled(_learned(state), start, self.noise, self._draw)
        self.last, self._again = copied(state), True
        return state

    def shown(self, own: Tensors) -> Tensors:
        """Gives the client's own model as others may have it: with the noise of its last update.

        Args:
            own: The model after its last mini-batch, of which its last update was made.
        """
        return {**own, **grown(self.last, width(own), self._seed)} if self.last else own

    def reach_of_sum(self, state: Tensors, known: Tensors) -> dict[str, float]:
        """Computes how far an update goes, for each tensor that a secure sum codes.

        Args:
            state: The tensors of the update.
            known: The global model.
        """
        assert self._differences is not None, "a coded sum, and the run's settings have no codec"
        outputs = max(width(state), width(known))  # it may have missed rounds in which classes came
        state, base = (grown(each, outputs, self._seed) for each in (state, known))
        return self._differences.reach(_learned(state), base)

    def for_sum(
        self,
        state: Tensors,
        known: Tensors,
        outputs: int,
        steps: Mapping[str, float],
        share: float,
        most: int,
    ) -> tuple[Tensors, Tensors]:
        """Codes an update for a secure sum: the change since the global model.

        Args:
            state: The tensors of the update.
            known: The global model.
            outputs: How many outputs the heads of all clients have.
            steps: The step of each tensor.
            share: The client's share of all weights, by which the change is multiplied.
            most: The largest integer.

        Returns:
            Integers by the names of tensors, and the tensors that are not coded.
        """
        assert self._differences is not None, "a coded sum, and the run's settings have no codec"
        state, base = (grown(each, outputs, self._seed) for each in (state, known))
        learned = _learned(state)
        others = {name: value for name, value in state.items() if name not in learned}
        if learned.keys() != steps.keys():
            raise OfclError("the server's steps of a sum are for another model")
        return self._differences.integers(learned, base, steps, share, most), others

    def state(self) -> State:
        """Returns its state, for a checkpoint; it stands among the keys of the client's."""
        return {
            "start": self._start,
            "released": self.released,
            "new": self._new,
            "last": self.last,
            "again": self._again,
            "noise": self._noise.get_state(),
            "coding": self._differences.state() if self._differences is not None else {},
            "base": self._base,
        }

    def load_state(self, state: State, device: torch.device) -> None:
        """Puts back a state.

        Args:
            state: The client's state; those of earlier versions lack a few keys.
            device: The device of the client's model.
        """
        if "released" in state:
            self._start = all_to_device(state["start"], device)
            self.released = int(state["released"])
            self._noise.set_state(state["noise"])
        if self._differences is not None:
            self._differences.load_state(state.get("coding", {}))
            self._base = all_to_device(state.get("base", {}), device)
        self.last = all_to_device(state.get("last", {}), device)
        self._again = bool(state.get("again", False))
        counted = sum(n for _, n in state["classes"])  # of the current task, the most there can be
        self._new = int(state.get("new", counted))


def _learned(state: Tensors) -> Tensors:
    """Leaves out the statistics of BatchNorm, which are counted and not learned."""
    return {name: value for name, value in state.items() if not is_statistic(name)}
