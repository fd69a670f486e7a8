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

MOST_SHAPES = 64  # graphs of one function; more would fill the device's memory
PLAIN_CALLS = 1  # before a combination of shapes is captured, so that libraries warm up

Shapes = tuple[torch.Size, ...]
"""The shapes of a call's arguments."""


@dataclass(frozen=True)
class _Recording:
    """A captured call.

    Args:
        graph: The graph to replay.
        arguments: The tensors that the graph reads, into which arguments are copied.
        output: The tensor that the graph writes.
    """

    graph: torch.cuda.CUDAGraph
    arguments: list[Tensor]
    output: Tensor


@contextmanager
def no_collection() -> Iterator[None]:
    """Stops the garbage collector inside the `with` block.

    A client, its functions and their graphs refer to each other, so only the collector frees them
    when a run is over. If it freed a graph while another one is captured, the capture would fail.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Captured:
    """A function of tensors that a CUDA device replays; on a CPU, the function itself.

    One graph is captured for each combination of argument shapes that comes more than once, up to
    64 combinations. Other calls run the function as it is written. Arguments may be on the CPU;
    they are copied to the device.

    The function may read and change other tensors (parameters, an optimiser's state). These must
    stay where they are in memory; call `forget` after replacing one.

    Args:
        function: Takes tensors and returns one.
        device: The device to compute on.
        capture: Whether the function may be captured; if not, it always runs as it is written.
    """

    def __init__(
        self, function: Callable[..., Tensor], device: torch.device, *, capture: bool = True
    ) -> None:
        self._function, self._device, self._capture = function, device, capture
        self._calls: Counter[Shapes] = Counter()
        self._recordings: dict[Shapes, _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def __call__(self, *arguments: Tensor) -> Tensor:
        """Returns the function's result for some arguments.

        Args:
            arguments: The arguments of the function.
        """
        if self._device.type != "cuda":
            return self._function(*arguments)
        shapes = tuple(argument.shape for argument in arguments)
        recording = self._recordings.get(shapes)
        if recording is None:
            self._calls[shapes] += 1
            full = len(self._recordings) == MOST_SHAPES
            if not self._capture or self._calls[shapes] <= PLAIN_CALLS or full:
                return self._function(*(to_device(a, self._device) for a in arguments))
            recording = self._recordings[shapes] = self._record(arguments)
        for place, argument in zip(recording.arguments, arguments, strict=True):
            place.copy_(argument, non_blocking=True)
        recording.graph.replay()
        return recording.output.clone()

    @property
    def replays(self) -> bool:
        """Whether calls are captured and replayed; otherwise the function runs as it is written."""
        return self._capture and self._device.type == "cuda"

    def forget(self) -> None:
        """Deletes all graphs, so that the next calls capture new ones."""
        self._calls.clear()
        self._recordings.clear()

    def _record(self, arguments: tuple[Tensor, ...]) -> _Recording:
        """Captures the function for arguments of the given shapes and types; computes nothing.

        The graph is captured in the CUDA stream in which it will be replayed: matrix products have
        one workspace for each stream, and two graphs that share a workspace must not run at the
        same time. The graphs of all shapes share their memory: they run one after the other, and
        their outputs are copied.
        """
        places = [torch.empty_like(argument, device=self._device) for argument in arguments]
        graph = torch.cuda.CUDAGraph()
        stream: torch.cuda.Stream | None = torch.cuda.current_stream(self._device)
        if stream == torch.cuda.default_stream(self._device):
            stream = None  # the default stream cannot be captured; PyTorch takes another one
        with no_collection(), torch.cuda.graph(graph, pool=self._pool, stream=stream):
            output = self._function(*places)
        return _Recording(graph, places, output)
