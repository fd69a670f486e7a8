"""A mini-batch on offer to a memory, and the decision which samples stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ofcl.compute.devices import Transfer
from ofcl.memory.table import Table


@dataclass(frozen=True)
class Offer:
    """A mini-batch of which it is not decided yet which samples stay.

    Its keys may still be on their way from the device; nobody waits for them before `decide`.

    Args:
        x: The samples (n, …).
        classes: The classes of the mini-batch.
        rows: The rows of the table by class, of the remembered samples and of those on offer.
        shares: The room of each crowded class: one that has more rows than its share.
        by_key: The crowded classes of which the smallest keys stay; of others, the first rows do.
        keys: Rows, and the keys that were computed for them.
    """

    x: Tensor
    classes: list[int]
    rows: dict[int, np.ndarray]
    shares: dict[int, int]
    by_key: set[int]
    keys: list[tuple[np.ndarray, Transfer]]

    def decide(self, table: Table) -> tuple[dict[int, np.ndarray], np.ndarray]:
        """Decides which rows stay, after it has written the new keys into the table.

        Returns:
            The rows that stay, by class in ascending order, and the rows that go.
        """
        for rows, keys in self.keys:
            table.key[rows], table.stale[rows] = keys.numpy(), False
        staying, going = dict(self.rows), [np.empty(0, dtype=np.int64)]
        for c, share in self.shares.items():
            rows = self.rows[c]
            if c in self.by_key:
                rows = rows[np.argsort(table.key[rows], kind="stable")]
            staying[c] = rows[:share]
            going.append(rows[share:])
        staying = {c: rows for c, rows in sorted(staying.items()) if len(rows)}
        return staying, np.concatenate(going)
