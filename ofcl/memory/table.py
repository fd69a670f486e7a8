"""The table of a memory: class, task, arrival and key of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """Facts about the remembered samples: tensors (n,) on the CPU, with an entry for each sample.

    Args:
        y: The class.
        task: The task in which the sample arrived.
        id: The number of its arrival in the stream: 0, 1, …
        key: The number by which the policy sorts; NaN where none had to be computed so far.
        stale: Whether a round has passed since the key was computed.
    """

    y: Tensor
    task: Tensor
    id: Tensor
    key: Tensor
    stale: Tensor


class Table:
    """The facts in `Samples` about every sample of a memory and of the mini-batch on offer.

    Row r is about the sample at place r of the memory. The rows behind the last place are about the
    mini-batch on offer.

    Args:
        places: The number of places in the memory.
    """

    def __init__(self, places: int) -> None:
        self.y, self.task, self.id = (np.zeros(places, dtype=np.int64) for _ in range(3))
        self.key = np.full(places, np.nan, dtype=np.float32)
        self.stale = np.zeros(places, dtype=bool)

    def columns(self) -> dict[str, np.ndarray]:
        """Returns the columns by name; they have the names of the fields of `Samples`."""
        return vars(self)

    def enlarge(self, rows: int) -> None:
        """Makes the table longer; the values in the new rows are arbitrary.

        Args:
            rows: The number of rows that the table has then.
        """
        for name, column in self.columns().items():
            setattr(self, name, np.resize(column, rows))

    def copy_rows(self, source: np.ndarray, to: np.ndarray) -> None:
        """Copies rows of the table onto other rows.

        Args:
            source: The rows to copy, which do not change.
            to: As many rows to overwrite.
        """
        for column in self.columns().values():
            column[to] = column[source]
