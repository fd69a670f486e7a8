"""A mini-batch on offer to a memory, and the decision which samples stay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from ofcl.compute.devices import Transfer
from ofcl.memory.policy import Policy
from ofcl.memory.table import Table
from ofcl.state import Tensors


@dataclass(frozen=True)
class Offer:
    """A mini-batch on offer to a memory: it is not decided yet which of its samples stay.

    Its keys may still be on their way from the device; nothing waits for them before `decide`.

    Args:
        x: The samples of the mini-batch (n, …).
        classes: The classes that the mini-batch has.
        rows: The table's rows of each class: those of remembered samples, then of the mini-batch.
        shares: The room of each crowded class: one that has more rows than room.
        by_key: The crowded classes of which the policy chooses the rows that stay, by their keys;
            of the other crowded classes, the first rows stay.
        to_key: Groups of rows whose keys are computed anew.
        policy: Decides which samples stay.
        compared: The rows whose distances were measured, in ascending order, and the distances
            between them (rows, rows); None if the policy needs no distances.
        keys: The new keys of each group of `to_key`.
        extras: Further tensors (n, …) by name that are remembered with the samples.
    """

    x: Tensor
    classes: list[int]
    rows: dict[int, np.ndarray]
    shares: dict[int, int]
    by_key: set[int]
    to_key: list[np.ndarray]
    policy: Policy
    compared: tuple[np.ndarray, Transfer] | None = None
    keys: list[Transfer] = field(default_factory=list)
    extras: Tensors = field(default_factory=dict)

    def decide(self, table: Table) -> tuple[dict[int, np.ndarray], np.ndarray]:
        """Writes the new keys into the table, and decides which rows stay.

        Args:
            table: The memory's table, which is changed.

        Returns:
            The rows that stay, by class, with the classes in ascending order; and the rows that go.
        """
        for rows, transfer in zip(self.to_key, self.keys, strict=True):
            keys = transfer.numpy()
            if self.policy.ranks is not None:
                keys = self.policy.ranks.rank(keys, table.y[rows], table.id[rows])
            table.key[rows], table.stale[rows] = keys, False
        staying, going = dict(self.rows), [np.empty(0, dtype=np.int64)]
        for c, share in self.shares.items():
            rows = self.rows[c]
            if c in self.by_key:
                apart = self._distances(rows)
                keys, arrivals = table.key[rows], table.id[rows]
                rows = rows[self.policy.choice.order(keys, arrivals, apart, share)]
            staying[c] = rows[:share]
            going.append(rows[share:])
            if self.policy.choice.hands_on and share:
                table.key[staying[c]] += table.key[going[-1]].sum() / share
        staying = {c: rows for c, rows in sorted(staying.items()) if len(rows)}
        return staying, np.concatenate(going)

    def _distances(self, rows: np.ndarray) -> np.ndarray:
        """Returns the distances between the samples of a class.

        Args:
            rows: The n rows of the class.

        Returns:
            Distances (n, n), infinite where none was measured; (0, 0) if the policy needs none.
        """
        if self.compared is None:
            return np.empty((0, 0))
        measured, transfer = self.compared
        apart = np.full((len(rows), len(rows)), np.inf)
        among = np.flatnonzero(np.isin(rows, measured))
        places = np.searchsorted(measured, rows[among])
        apart[np.ix_(among, among)] = transfer.numpy()[np.ix_(places, places)]
        return apart
