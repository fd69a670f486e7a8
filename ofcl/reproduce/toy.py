"""Figure 2 of the paper: confidence and Bregman information of the same points.

Two classes overlap on a plane. Where they overlap, no model can be confident, but there are many
samples to learn from: models that learned from different samples agree that both classes are
likely. Far from all samples they disagree, however confident each of them is. The first is
aleatoric uncertainty, the second epistemic. Bregman information is computed from an ensemble, as in
the paper's figure, and from noisy copies of a sample, as memories do. Noisy copies need only one
model; they mostly show how near the boundary between the classes is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.models.mlp import MLP
from ofcl.report import figures
from ofcl.seeds import generator, private
from ofcl.uncertainty.perturbations import NoisyCopies
from ofcl.uncertainty.scores import bregman_information, least_confidence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTRES, SPREAD = 1.0, 0.7  # the classes are at x = ±1
SAMPLES, MEMBERS, HIDDEN, STEPS, RATE = 200, 20, 64, 200, 0.02
SIDE, POINTS = 6.0, 81  # the square that is drawn: from -SIDE to SIDE, with POINTS a side
NOISE, COPIES = 0.3, 50


@dataclass(frozen=True)
class Toy:
    """The samples of Figure 2, and maps of the square around them.

    Args:
        x: The samples (n, 2).
        y: The class (n,) of each sample.
        maps: For each map by its name, values (POINTS, POINTS) on a grid over the square.
    """

    x: Tensor
    y: Tensor
    maps: dict[str, np.ndarray]

    def at(self, name: str, x: float, y: float) -> float:
        """Returns the value of a map at the grid point nearest to given coordinates.

        Args:
            name: The name of the map.
            x: The first coordinate, from -SIDE to SIDE.
            y: The second coordinate, from -SIDE to SIDE.
        """
        column, row = (round((v + SIDE) / (2 * SIDE) * (POINTS - 1)) for v in (x, y))
        return float(self.maps[name][row, column])


def make_toy(seed: int = 0) -> Toy:
    """Trains an ensemble and maps its confidence and Bregman information; takes a few seconds.

    Args:
        seed: The seed of samples and models.
    """
    draw = generator(seed, "toy")
    x, y = _samples(draw)
    members = [_member(x, y, seed, n) for n in range(MEMBERS)]
    side = torch.linspace(-SIDE, SIDE, POINTS)
    plane = torch.cartesian_prod(side, side).flip(1)  # rows are y
    with torch.no_grad():
        ensemble = torch.stack([member(plane) for member in members])
        copies = NoisyCopies(NOISE, COPIES)(plane, draw)
        copied = members[0](copies.flatten(0, 1)).view(COPIES, len(plane), -1)
    maps = {
        "confidence": 1 - least_confidence(ensemble.softmax(-1).mean(0, keepdim=True).log()),
        "BI of an ensemble": bregman_information(ensemble),
        "BI of noisy copies": bregman_information(copied),
    }
    return Toy(x, y, {name: m.view(POINTS, POINTS).numpy() for name, m in maps.items()})


def _samples(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws the samples (SAMPLES, 2) of two classes; returns them and their classes (SAMPLES,)."""
    y = torch.arange(SAMPLES) % 2
    centres = torch.stack([CENTRES * (2 * y - 1).float(), torch.zeros(SAMPLES)], 1)
    return centres + SPREAD * torch.randn(SAMPLES, 2, generator=draw), y


def _member(x: Tensor, y: Tensor, seed: int, number: int) -> nn.Module:
    """Trains one network of the ensemble, on n of the n samples, drawn with replacement.

    Args:
        x: The samples (n, 2).
        y: Their classes (n,).
        seed: The seed of the figure.
        number: The number of the network, by which its draws differ from those of the others.
    """
    draw = generator(seed, "toy member", number)
    with private(seed, "toy model", number):
        model = MLP(2, HIDDEN, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    rows = torch.randint(len(x), (len(x),), generator=draw)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def draw_toy(toy: Toy) -> Figure:
    """Draws the maps side by side, with the samples.

    Args:
        toy: The samples and the maps.
    """
    figure, all_axes = figures.panels(len(toy.maps))
    for axes, (name, values) in zip(all_axes, toy.maps.items(), strict=True):
        image = axes.imshow(values, origin="lower", extent=(-SIDE, SIDE, -SIDE, SIDE),
                            cmap="viridis" if name == "confidence" else "magma")  # fmt: skip
        for c, marker in ((0, "o"), (1, "^")):
            some = toy.x[toy.y == c]
            axes.scatter(some[:, 0], some[:, 1], s=4, c="white", marker=marker, linewidths=0.2,
                         edgecolors="black")  # fmt: skip
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)
    return figure
