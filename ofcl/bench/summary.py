"""All measurements of a benchmark, as a value that can be printed, saved and drawn."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ofcl.assembly.resolve import find_device
from ofcl.bench.breakdown import time_parts
from ofcl.bench.peer import METHODS as PEER_METHODS
from ofcl.bench.peer import Peer
from ofcl.bench.workload import Bench, Workload
from ofcl.errors import OfclError
from ofcl.version import __version__

GROWTH: dict[str, tuple[Any, ...]] = {
    "memory": (200, 1000, 5000),
    "clients": (1, 5, 20),
    "side": (32, 64),
    "classes": (10, 100),
}
"""The sizes with which the time of a mini-batch may grow, and the values that are measured."""


@dataclass
class Measurements:
    """The measured milliseconds of a mini-batch of one client, rounds included.

    Attributes:
        machine: The device, the threads and the versions.
        work: The workload, with the names of the methods.
        whole: The milliseconds of each method.
        parts: The milliseconds of each part of each method: method → part → ms.
        growth: The milliseconds for each size: dimension (`GROWTH`) → method → size → ms.
        peer: The milliseconds of each method in the paper's released code; empty: not measured.
    """

    machine: dict[str, Any]
    work: dict[str, Any]
    whole: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    growth: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    peer: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Turns the measurements into plain values for a file."""
        return asdict(self)


def measure(
    work: Workload,
    methods: Sequence[str],
    *,
    seconds: float = 2.0,
    grow: Sequence[str] = (),
    against: Path | None = None,
    tell: Callable[[str], None] = print,
) -> Measurements:
    """Measures methods on a workload, one after the other.

    Args:
        work: The workload; its method is replaced by each of `methods`.
        methods: The names of the methods.
        seconds: The least time of each measurement.
        grow: The dimensions of `GROWTH` in which the workload's size is varied.
        against: A checkout of the paper's code, to be measured too; None: it is not.
        tell: Gets a line before each measurement.
    """
    for dimension in grow:
        _values(dimension, work)
    measured = Measurements(_machine(work.device), {**asdict(work), "methods": list(methods)})
    peer = Peer(against, work.images) if against is not None else None
    for method in methods:
        tell(f"{method}: a mini-batch")
        chosen = replace(work, method=method)
        measured.whole[method] = Bench(chosen).milliseconds(seconds)
        measured.parts[method] = time_parts(chosen)
        if peer is not None and method in PEER_METHODS:
            tell(f"{method}: the paper's code")
            measured.peer[method] = peer.milliseconds(chosen, seconds)
    for dimension in grow:
        for method in methods:
            tell(f"{method}: grows with {dimension}")
            times = measured.growth.setdefault(dimension, {}).setdefault(method, {})
            for value in _values(dimension, work):
                bench = Bench(grown(replace(work, method=method), dimension, value))
                times[str(value)] = bench.milliseconds(seconds)
    return measured


def _values(dimension: str, work: Workload) -> tuple[Any, ...]:
    """Returns the sizes to measure in a dimension; empty for the side of samples that are vectors.

    Args:
        dimension: The name of the dimension; one that is not in `GROWTH` raises an error.
        work: The workload.
    """
    if dimension not in GROWTH:
        raise OfclError(f"unknown dimension '{dimension}'; known: {', '.join(GROWTH)}")
    if dimension == "side" and not work.images:
        return ()
    return GROWTH[dimension]


def grown(work: Workload, dimension: str, value: int) -> Workload:
    """Returns a workload of another size in one dimension.

    Args:
        work: The workload.
        dimension: The dimension, one of `GROWTH`.
        value: The new size. With many classes, the memory grows too, to two samples of each.
    """
    if dimension == "side":
        return replace(work, shape=(work.shape[0], value, value))
    if dimension == "classes":
        return replace(work, classes=value, memory=max(work.memory, 2 * value))
    return replace(work, memory=value) if dimension == "memory" else replace(work, clients=value)


def _machine(device: str) -> dict[str, Any]:
    """Returns the name of the device, the number of threads, and the versions of PyTorch and ofcl.

    Args:
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
    """
    found = find_device(device)
    name = torch.cuda.get_device_name(found) if found.type == "cuda" else platform.machine()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "ofcl": __version__,
    }


def draw(measured: Measurements, path: Path) -> None:
    """Draws the times against the sizes of the workload, and saves the figure; needs matplotlib.

    Args:
        measured: The measurements, of which `growth` is drawn.
        path: The file of the figure; its suffix says in which format.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OfclError("drawing needs matplotlib: pip install 'ofcl[figures]'") from None
    panels = measured.growth
    figure = Figure(figsize=(3.2 * max(len(panels), 1), 2.8), layout="constrained")
    axes = figure.subplots(1, max(len(panels), 1), squeeze=False, sharey=True)[0]
    for axis, (dimension, methods) in zip(axes, panels.items(), strict=True):
        for method, times in methods.items():
            axis.plot([int(v) for v in times], list(times.values()), marker="o", label=method)
        axis.set(xlabel=dimension, xscale="log", yscale="log")
        axis.set_xticks([int(v) for v in next(iter(methods.values()))])
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.minorticks_off()
    axes[0].set_ylabel("ms a client's mini-batch")
    axes[0].legend(frameon=False)
    figure.savefig(path)
