"""Working with a device without waiting for it: a GPU gets its work queued, and is asked rarely."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


@functools.cache
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """A tensor of these values, made once: its making would be waited for."""
    return torch.tensor(values, device=device)


def to_device(values: Tensor | np.ndarray, device: torch.device) -> Tensor:
    """A tensor or an array of the CPU on the device, behind what is queued there."""
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    return tensor.to(device, non_blocking=True)


def all_to_device(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Tensors that have come from another process, on the device."""
    return {name: to_device(tensor, device) for name, tensor in tensors.items()}


class Transfer:
    """A tensor on its way from a device; a CPU's is there."""

    def __init__(self, values: Tensor) -> None:
        self._values, self._arrival = values, None
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrival.record(torch.cuda.current_stream(values.device))

    def numpy(self) -> np.ndarray:
        """The values; waits for them."""
        if self._arrival is not None:
            self._arrival.synchronize()
        return self._values.numpy()


class Lanes:
    """A CUDA stream for each of several parties, so that their work overlaps; on a CPU, nothing.

    The first work in a lane since the last `join` starts behind what was queued outside before;
    after a `join`, what is queued outside starts behind the work of all lanes.
    """

    def __init__(self, device: torch.device, parties: Sequence[int]) -> None:
        self.overlap = device.type == "cuda"
        self._device = device
        self._lanes = {n: _stream(device) for n in parties} if self.overlap else {}
        self._used: set[int] = set()  # since the last join

    @contextmanager
    def of(self, party: int) -> Iterator[None]:
        """The lane of a party."""
        if not self.overlap:
            yield
            return
        lane = self._lanes[party]
        if party not in self._used:
            lane.wait_stream(torch.cuda.current_stream(self._device))
            self._used.add(party)
        with torch.cuda.stream(lane):
            yield

    def join(self) -> None:
        """What is queued next starts behind the work of all lanes."""
        for party in self._used:
            torch.cuda.current_stream(self._device).wait_stream(self._lanes[party])
        self._used.clear()


def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
