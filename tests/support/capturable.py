"""A stand-in for CUDA graphs on a CPU, which refuses what a GPU could not capture and replay.

A graph replays the same kernels on the same memory. So every later call of a captured function must
run the same operations as the recorded one, and read the same tensors: a branch on a value, a
tensor that was replaced, a value that Python reads, a shape that depends on values, or a tensor
that is made on the CPU would all go wrong on a GPU.
"""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ofcl.compute import cuda_graphs

READS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim"}
"""Operations that wait for the device, or whose result has a shape that depends on values."""

MAKES = {torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.eye, torch.rand,
         torch.randn, torch.randint, torch.randperm, torch.scalar_tensor}  # fmt: skip
"""Functions that make a tensor on the CPU, unless they are told a device."""


class NothingOnTheCPU(TorchFunctionMode):
    """Refuses tensors that are made without a device; PyTorch names one by itself later."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in MAKES and args[0] != 0:  # empty ones stand for something that is missing
            told = (kwargs or {}).get("device") is not None
            assert told, f"{func.__name__} without a device: made on the CPU"
        return func(*args, **(kwargs or {}))


class Watch(TorchDispatchMode):
    """Lists the operations of a call, and the tensors from outside that each of them reads."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, tuple[int, ...]]] = []
        self.kept: list[torch.Tensor] = []  # so that no memory is used again
        self._made: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        assert name not in READS, f"{name}: a captured step cannot read values"
        assert name != "lift_fresh", "torch.tensor: made on the CPU"
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        rows = tree_leaves(args[1]) if name in ("index", "index_put", "index_put_") else []
        masks = [t for t in rows if t is not None and t.dtype == torch.bool]
        assert not masks, f"{name}: how many a mask selects depends on its values"
        outside = tuple(i for i in map(place, given) if i not in self._made)
        self.operations.append((name, outside))
        result = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        known = set(map(place, given))
        self._made.update(i for i in map(place, made) if i not in known)
        self.kept += given + made
        return result


def place(tensor: torch.Tensor) -> int:
    """The memory of a tensor, as a number."""
    return tensor.untyped_storage()._cdata


def one_hot(y, classes):
    """`F.one_hot`, which looks at the values on a CPU, and on a GPU does not."""
    return (y.unsqueeze(-1) == torch.arange(classes, device=y.device)).long()


def watch_captures(monkeypatch) -> list[int]:
    """Makes every `Captured` record and compare its calls, as if a CPU could capture them.

    Returns:
        A list that gets one entry for each call that was compared with a recorded one.
    """
    compared: list[int] = []

    def call(self, *arguments):
        if not self._capture:
            return self._function(*arguments)
        shapes = tuple(argument.shape for argument in arguments)
        self._calls[shapes] += 1
        if self._calls[shapes] <= cuda_graphs.PLAIN_CALLS:
            return self._function(*arguments)
        recorded = self._recordings.get(shapes)
        places = recorded[0] if recorded else [torch.empty_like(a) for a in arguments]
        for own, argument in zip(places, arguments, strict=True):
            own.copy_(argument)
        with NothingOnTheCPU(), Watch() as watch:
            output = self._function(*places)
        if recorded is None:
            self._recordings[shapes] = (places, watch)
            return output
        compared.append(len(watch.operations))
        for ours, theirs in zip(watch.operations, recorded[1].operations, strict=True):
            assert ours == theirs, f"{ours} where {theirs} was captured"
        return output

    monkeypatch.setattr(cuda_graphs.Captured, "__call__", call)
    monkeypatch.setattr(cuda_graphs.Captured, "replays", property(lambda self: self._capture))
    monkeypatch.setattr(torch.nn.functional, "one_hot", one_hot)
    return compared
