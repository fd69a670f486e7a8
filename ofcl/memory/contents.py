"""The samples in a memory: where each lies, and of which class it is.

A remembered sample has a place 0 … size − 1, in the `Store` on the device and in the `Table` on the
CPU. The samples of a mini-batch on offer follow in the table's rows from `size` on, until it is
decided which of them stay.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ofcl.compute.devices import all_to_device, to_device
from ofcl.memory.offer import Offer
from ofcl.memory.store import Store
from ofcl.memory.table import Table
from ofcl.state import State


class Contents:
    """The samples in a memory: the store with the samples, and the table with facts about them.

    Args:
        size: The number of samples that fit in.
        device: The device that keeps the samples; None: the device of the first sample.
    """

    def __init__(self, size: int, device: torch.device | None) -> None:
        self.size = size
        self.store, self.table = Store(size, device), Table(size)
        self.used = np.zeros(size, dtype=bool)  # whether there is a sample at each place
        self._places_of: dict[int, np.ndarray] = {}  # the places of each class, classes sorted

    def places(self) -> np.ndarray:
        """Returns the places that have a sample, in ascending order."""
        return np.flatnonzero(self.used)

    def enter(self, x: Tensor, y: np.ndarray, task: int, first: int) -> np.ndarray:
        """Enters the facts about a mini-batch in the table, in rows behind those of the places.

        The samples are not stored yet.

        Args:
            x: The samples (n, …); at the first call, the store makes room for samples like these.
            y: Their classes (n,).
            task: The task in which they arrive.
            first: The number of the first sample's arrival; the others follow one by one.

        Returns:
            The rows of the mini-batch in the table (n,).
        """
        self.store.reserve(x)
        table, n = self.table, len(y)
        if len(table.y) < self.size + n:
            table.enlarge(self.size + n)
        new = np.arange(self.size, self.size + n)
        table.y[new], table.task[new], table.key[new], table.stale[new] = y, task, np.nan, False
        table.id[new] = np.arange(first, first + n)
        return new

    def join(self, new: np.ndarray, balanced: bool) -> tuple[dict[int, np.ndarray], list[int]]:
        """Groups the table's rows by class: those of remembered samples and those of a mini-batch.

        Args:
            new: The rows of the mini-batch.
            balanced: Whether classes are told apart; otherwise all rows count as class 0.

        Returns:
            The rows of each class, the mini-batch's last; and the classes that the mini-batch has.
        """
        none = new[:0]
        joined = {
            c: np.concatenate([self._places_of.get(c, none), rows])
            for c, rows in self._by_class(new, balanced).items()
        }
        return self._places_of | joined, list(joined)

    def samples_at(self, rows: np.ndarray, offered: Tensor) -> Tensor:
        """Returns the samples of some rows of the table.

        Args:
            rows: The rows: first those of remembered samples, then those of the mini-batch on
                offer.
            offered: All samples of the mini-batch on offer (n, …).
        """
        remembered, new = rows[rows < self.size], rows[rows >= self.size] - self.size
        if len(new) < len(offered):
            offered = offered.index_select(0, to_device(new, offered.device))
        if not len(remembered):
            return offered
        return torch.cat([self.store.take(remembered), offered])

    def settle(self, offer: Offer) -> np.ndarray:
        """Decides which samples stay, drops the others, and stores the new ones that stay.

        Args:
            offer: The mini-batch on offer, with its keys.

        Returns:
            The keys of the dropped samples, remembered or new.
        """
        self._places_of, going = offer.decide(self.table)
        keys: np.ndarray = self.table.key[going]
        self.used[going[going < self.size]] = False
        self._move_in(offer)
        return keys

    def forget_before(self, oldest: int) -> None:
        """Drops the samples that arrived before a given one.

        Args:
            oldest: The arrival number of the oldest sample that stays.
        """
        young = self.table.id >= oldest
        if young[: self.size][self.used].all():
            return
        self.used &= young[: self.size]
        staying = {c: places[young[places]] for c, places in self._places_of.items()}
        self._places_of = {c: places for c, places in staying.items() if len(places)}

    def state(self) -> State:
        """Returns the samples, their places and the facts about them, for a checkpoint."""
        ordered = np.concatenate([np.empty(0, dtype=np.int64), *self._places_of.values()])
        places = torch.from_numpy(ordered)
        columns = self.table.columns().items()
        extras = {name: value[places] for name, value in self.store.extras.items()}
        return {
            "x": self.store.x[places] if len(places) else self.store.x[:0],
            "places": places,
            "samples": {name: torch.from_numpy(column[ordered]) for name, column in columns},
            **({"extras": extras} if extras else {}),
        }

    def load_state(self, state: State, balanced: bool) -> None:
        """Puts back what `state` returned.

        Args:
            state: The state of the whole memory, which includes what `state` returned.
            balanced: Whether classes are told apart; otherwise all samples count as class 0.
        """
        places: np.ndarray = state["places"].numpy()
        for name, column in self.table.columns().items():
            column[places] = state["samples"][name].numpy()
        self.used[:] = False
        self.used[places] = True
        self._places_of = self._by_class(places, balanced)
        if state["arrived"]:
            self.store.reserve(state["x"])
            x, rows = state["x"].to(self.store.x.device), np.arange(len(places))
            extras = all_to_device(state.get("extras", {}), x.device)
            self.store.extras = {}
            self.store.put(places, x, rows, self.table.y[places], extras)

    def _by_class(self, rows: np.ndarray, balanced: bool) -> dict[int, np.ndarray]:
        """Groups rows of the table by class; if not `balanced`, all rows are in class 0."""
        if not balanced:
            return {0: rows}
        y = self.table.y[rows]
        return {int(c): rows[y == c] for c in np.unique(y)}

    def _move_in(self, offer: Offer) -> None:
        """Stores the samples of an offer that stay, at free places; no other sample moves."""
        arriving = {}
        for c in offer.classes:
            if c in self._places_of and (new := self._places_of[c] >= self.size).any():
                arriving[c] = new
        if not arriving:
            return
        rows = np.concatenate([self._places_of[c][new] for c, new in arriving.items()])
        free = np.flatnonzero(~self.used)[: len(rows)]
        self.table.copy_rows(rows, free)
        self.used[free] = True
        self.store.put(free, offer.x, rows - self.size, self.table.y[free], offer.extras)
        for c, new in arriving.items():
            taken, free = free[: new.sum()], free[new.sum() :]
            self._places_of[c][new] = taken
