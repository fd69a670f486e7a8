"""A model as a coded difference to another model, which the receiver has.

What the coding loses is added to the next difference (error feedback: Seide et al. 2014;
Karimireddy et al. 2019), so that nothing is lost for good. BatchNorm's statistics travel as they
are.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

import torch

from ofcl.compression.codecs import Codec
from ofcl.errors import OfclError
from ofcl.models.head import grown, width
from ofcl.state import State, Tensors
from ofcl.update import is_statistic

BASE = "base"
"""The name under which two numbers travel: the first model's checksum, and the head's outputs."""

MOST_OUTPUTS = 10**5  # of a head; more can only be a mistake


class OtherBase(OfclError):
    """Raised if a difference was made to another model than the receiver has."""


class Coded(NamedTuple):
    """A model in coded form.

    Args:
        tensors: What travels.
        model: The model as the receiver will have it.
    """

    tensors: Tensors
    model: Tensors


class Differences:
    """Codes one model after the other; keeps what the coding has lost.

    Args:
        codec: How differences are coded.
        seed: The run's seed, from which the outputs of new classes are drawn.
    """

    def __init__(self, codec: Codec, seed: int) -> None:
        self.codec, self._seed = codec, seed
        self._lost: Tensors = {}  # added to the next difference
        self._pending: Tensors = {}  # lost by the last one

    @torch.no_grad()
    def code(self, model: Tensors, base: Tensors) -> Coded:
        """Codes a model as its difference to another, and what was lost before.

        Args:
            model: The model.
            base: The other model, which may have more tensors, and fewer outputs.
        """
        base = {name: base[name] for name in model}
        start = grown(base, width(model), self._seed)
        learned = {name: value for name, value in model.items() if not is_statistic(name)}
        change = self._change(learned, start)
        coded = self.codec.encode(change)
        decoded = self.codec.decode(coded, learned)
        self._pending = {name: change[name] - decoded[name] for name in change}
        exact = {name: value for name, value in model.items() if is_statistic(name)}
        about = torch.tensor([checksum(base), width(model)])
        return Coded({**coded, **exact, BASE: about}, _joined(start, decoded, exact))

    @torch.no_grad()
    def integers(
        self, model: Tensors, base: Tensors, steps: Mapping[str, float], share: float, most: int
    ) -> Tensors:
        """Codes a model in whole steps that others share, for a sum of integers.

        Args:
            model: The tensors of the model that are coded.
            base: The other model, with as many outputs.
            steps: The step of each tensor.
            share: The number by which the difference is multiplied before.
            most: The largest integer, with and without a sign.
        """
        change, coded = self._change(model, base), {}
        for name, value in change.items():
            coded[name] = (value * (share / steps[name])).round().clamp(-most, most)
        times = {name: step / share if share else 0.0 for name, step in steps.items()}
        self._pending = {n: change[n] - coded[n] * times[n] for n in change}
        return {name: value.to(torch.int16) for name, value in coded.items()}

    @torch.no_grad()
    def reach(self, model: Tensors, base: Tensors) -> dict[str, float]:
        """Computes the largest number of each tensor of the difference, with what was lost.

        Args:
            model: The tensors of the model that are coded.
            base: The other model, with as many outputs.
        """
        change = self._change(model, base)
        return {n: float(v.abs().max()) if v.numel() else 0.0 for n, v in change.items()}

    def _change(self, model: Tensors, start: Tensors) -> Tensors:
        """Computes the difference of a model to another, and what was lost before."""
        change = {name: value - start[name] for name, value in model.items()}
        for name, lost in self._lost.items():
            # The head may have grown since: the new outputs have lost nothing yet.
            part = change[name][tuple(slice(size) for size in lost.shape)]
            part += lost.to(part)
        return change

    def settle(self, share: float = 1.0) -> None:
        """Keeps what the last coding has lost, because the sender goes on from the coded model.

        Without this call, the sender goes on from its own model, which has lost nothing.

        Args:
            share: The share of the coded model in what the sender goes on with.
        """
        if self._pending:
            self._lost = {name: share * value for name, value in self._pending.items()}
            self._pending = {}

    def state(self) -> State:
        """Gives what was lost so far, for a checkpoint."""
        return {"lost": self._lost, "pending": self._pending}

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: The state; empty: nothing was lost.
        """
        self._lost, self._pending = dict(state.get("lost", {})), dict(state.get("pending", {}))


@torch.no_grad()
def decoded(tensors: Tensors, base: Tensors, codec: Codec, seed: int) -> Tensors:
    """Makes the model from its coded difference.

    Args:
        tensors: What has come.
        base: The model to which the difference was made; it may have statistics that do not travel.
        codec: How it was coded.
        seed: The run's seed, from which the outputs of new classes are drawn.

    Raises:
        OtherBase: If the difference was made to another model.
        ValueError: If the tensors cannot be such a difference.
    """
    about = tensors.get(BASE, torch.zeros(0))
    if about.dtype != torch.int64 or about.shape != (2,):
        raise ValueError("a coded model came without the checksum of its base")
    base = {
        name: value for name, value in base.items() if not is_statistic(name) or name in tensors
    }
    found, outputs = about.tolist()
    if not width(base) <= outputs <= MOST_OUTPUTS:
        raise ValueError(f"a coded model has {outputs} outputs; expected {width(base)} or more")
    if found != checksum(base):
        raise OtherBase("the difference was made to another model than the one that is here")
    start = grown(base, outputs, seed)
    learned = {name: value for name, value in start.items() if not is_statistic(name)}
    exact = {name: tensors[name].to(base[name]) for name in base if is_statistic(name)}
    coded = {n: value for n, value in tensors.items() if n not in exact and n != BASE}
    return _joined(start, codec.decode(coded, learned), exact)


def checksum(model: Tensors) -> int:
    """Computes the checksum (CRC-32) of a model's tensors, whatever their order.

    Args:
        model: The model.
    """
    total = 0
    for name in sorted(model):
        total = zlib.crc32(model[name].detach().cpu().contiguous().numpy().tobytes(), total)
    return total


def _joined(start: Tensors, change: Tensors, exact: Tensors) -> Tensors:
    """Adds decoded changes to a model; statistics are taken as they came."""
    return {
        name: exact[name] if name in exact else value + change[name].to(value)
        for name, value in start.items()
    }
