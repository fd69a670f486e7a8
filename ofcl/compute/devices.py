"""Work with a GPU without waiting for it: copies to it, values back from it, overlapping clients.

A GPU has a queue of work. Python waits for it only where it reads a value: rarely, and late.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


@functools.cache
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Caches a constant on the device, so that using it needs no synchronisation.

    Args:
        values: The numbers.
        device: The device to keep them on.

    Returns:
        The numbers as a tensor, the same one in every call.
    """
    return torch.tensor(values, device=device)


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Sets the number of PyTorch's threads on the CPU inside the `with` block.

    A small network is fastest with one thread, and several runs on one machine would compete for
    its cores.

    Args:
        count: The number of threads; None: it is not changed.
    """
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_device(values: Tensor | np.ndarray, device: torch.device) -> Tensor:
    """Queues a copy of a tensor or array to a device, and returns the copy without waiting.

    Args:
        values: The tensor or array, on the CPU.
        device: The device to copy to; if it is the CPU, nothing is copied. To an Apple GPU
            (`mps`), which has no numbers of 64 bits, floats go as 32, and the copy is waited for.
    """
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if device.type == "mps":
        return tensor.to(device, torch.float32 if tensor.dtype == torch.float64 else tensor.dtype)
    return tensor.to(device, non_blocking=True)


def wide(values: Tensor) -> Tensor:
    """Gives numbers as floats of 64 bits; an Apple GPU has none, so its numbers come to the CPU.

    Args:
        values: The numbers.
    """
    return values.cpu().double() if values.device.type == "mps" else values.double()


def all_to_device(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Queues copies of named tensors to a device, and returns the copies without waiting.

    Args:
        tensors: The tensors by name, on the CPU.
        device: The device to copy to; if it is the CPU, nothing is copied.
    """
    return {name: to_device(tensor, device) for name, tensor in tensors.items()}


class Transfer:
    """A tensor on its way from a GPU to the CPU; a tensor on the CPU has arrived already.

    Args:
        values: The tensor. If it is on a GPU, a copy to the CPU is queued.
    """

    def __init__(self, values: Tensor) -> None:
        self._values, self._arrival = values, None
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrival.record(torch.cuda.current_stream(values.device))
        elif values.device.type != "cpu":
            self._values = values.cpu()

    def numpy(self) -> np.ndarray:
        """Waits for the values to arrive and returns them."""
        if self._arrival is not None:
            self._arrival.synchronize()
        return self._values.numpy()


class Lanes:
    """A CUDA stream (lane) for each client, so that the work of several clients overlaps.

    The first work in a lane after a `join` waits for the work queued before it outside of the
    lanes. Work that is queued outside after a `join` waits for the work of all lanes. On a CPU,
    lanes do nothing.

    Args:
        device: The device that the clients compute on.
        clients: The clients' numbers.
    """

    def __init__(self, device: torch.device, clients: Sequence[int]) -> None:
        self.overlap = device.type == "cuda"
        self._device = device
        self._lanes = {n: _stream(device) for n in clients} if self.overlap else {}
        self._used: set[int] = set()  # clients with work since the last join

    @contextmanager
    def of(self, client: int) -> Iterator[None]:
        """Queues the work of a `with` block in the lane of a client.

        Args:
            client: The client's number.
        """
        if not self.overlap:
            yield
            return
        lane = self._lanes[client]
        if client not in self._used:
            lane.wait_stream(torch.cuda.current_stream(self._device))
            self._used.add(client)
        with torch.cuda.stream(lane):
            yield

    def join(self) -> None:
        """Makes work that is queued outside of the lanes from now on wait for all lanes."""
        for client in self._used:
            torch.cuda.current_stream(self._device).wait_stream(self._lanes[client])
        self._used.clear()


def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
