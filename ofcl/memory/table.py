"""What a memory knows of its samples besides their x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """What is known of samples besides their x: tensors (n,) with an entry each, on the CPU."""

    y: Tensor  # place of the label in the vocabulary
    task: Tensor  # task in which it arrived
    id: Tensor  # number of its arrival in the stream: 0, 1, …
    key: Tensor  # what the policy sorts by; not a number: not known, nobody had to go
    stale: Tensor  # whether a round has passed since


class Table:
    """What is known of the samples: an entry for each place, and for those on offer behind them."""

    def __init__(self, places: int) -> None:
        self.y, self.task, self.id = (np.zeros(places, dtype=np.int64) for _ in range(3))
        self.key = np.full(places, np.nan, dtype=np.float32)
        self.stale = np.zeros(places, dtype=bool)

    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name."""
        return vars(self)

    def enlarge(self, places: int) -> None:
        """Makes room for more; what is in the new places does not matter yet."""
        for name, column in self.columns().items():
            setattr(self, name, np.resize(column, places))

    def move(self, source: np.ndarray, to: np.ndarray) -> None:
        """Copies entries."""
        for column in self.columns().values():
            column[to] = column[source]
