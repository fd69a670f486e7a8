"""CUDA graphs: a function of tensors is recorded once and then replayed.

A gradient step of a small network is hundreds of small kernels, and starting them from Python takes
far longer than they run. A replay starts them all at once.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from ofcl.compute.devices import to_device

MOST_SHAPES = 64  # of one function that are captured; more would fill the device's memory
PLAIN_CALLS = 1  # with arguments of some shape, before they are captured: libraries warm up in it

Shapes = tuple[torch.Size, ...]


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    arguments: list[Tensor]
    output: Tensor


@contextmanager
def no_collection() -> Iterator[None]:
    """Lets nothing be collected meanwhile.

    A client, its functions and their graphs hold each other, so those of a run that is over wait
    for the collector; a graph that is freed while another is captured spoils that one.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Captured:
    """A function of tensors that a CUDA device replays; anywhere else it is the function itself.

    Arguments may be on the CPU, and are copied to the device. One graph is captured for each
    combination of shapes that comes more than once; others run plainly. What the function reads
    and changes besides its arguments (parameters, an optimiser's state) must stay where it is in
    memory: after a change of that, `forget`.
    """

    def __init__(self, function: Callable[..., Tensor], device: torch.device) -> None:
        self._function, self._device = function, device
        self._calls: Counter[Shapes] = Counter()
        self._recordings: dict[Shapes, _Recording] = {}
        # All recordings share their memory.
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def __call__(self, *arguments: Tensor) -> Tensor:
        """What the function gives for these arguments."""
        if self._device.type != "cuda":
            return self._function(*arguments)
        shapes = tuple(argument.shape for argument in arguments)
        recording = self._recordings.get(shapes)
        if recording is None:
            self._calls[shapes] += 1
            if self._calls[shapes] <= PLAIN_CALLS or len(self._recordings) == MOST_SHAPES:
                return self._function(*(to_device(a, self._device) for a in arguments))
            recording = self._recordings[shapes] = self._record(arguments)
        for place, argument in zip(recording.arguments, arguments, strict=True):
            place.copy_(argument, non_blocking=True)
        recording.graph.replay()
        return recording.output.clone()

    def forget(self) -> None:
        """Captures anew from now on."""
        self._calls.clear()
        self._recordings.clear()

    def _record(self, arguments: tuple[Tensor, ...]) -> _Recording:
        """Captures the function; capturing runs nothing, so it changes nothing.

        It is captured where it will be replayed: matrix products have one workspace a stream, and
        two graphs that were captured in the same one must not run at the same time. As they run
        one after the other, and what they give is copied, all shapes use the same memory.
        """
        places = [torch.empty_like(argument, device=self._device) for argument in arguments]
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(self._device)
        elsewhere = stream == torch.cuda.default_stream(self._device)  # that cannot be captured
        where = torch.cuda.graph(graph, pool=self._pool, stream=None if elsewhere else stream)
        with no_collection(), where:
            output = self._function(*places)
        return _Recording(graph, places, output)
