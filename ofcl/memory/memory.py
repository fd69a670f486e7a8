"""The memory of a client: a fixed number of samples of its stream, for replay against forgetting.

Every class has a share of the room: the same for all, and what a small class does not need goes to
the others (`even_shares`). Where a class has more candidates than its share, those with the
smallest keys stay; a `Policy` says what the key is. A reservoir is the same with a random key and
all samples in one class.

The samples lie on the device, what is known of them in tables of the CPU. A key may still be on its
way from the device when its samples have been offered: what stays is settled when somebody asks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ofcl.compute.devices import Transfer, to_device
from ofcl.memory.policy import Policy
from ofcl.memory.shares import SHARE_RULES, even_shares
from ofcl.memory.table import Samples, Table
from ofcl.state import State

DAY = 24 * 3600.0  # seconds


DROPPED = 1000  # samples that went last, whose keys are kept to be looked at


@dataclass(frozen=True)
class _Offer:
    """A mini-batch of which it is not settled yet what stays."""

    x: Tensor
    groups: dict[int, np.ndarray]  # rows of the table by class, those on offer among them
    offered: list[int]  # classes of the mini-batch
    shares: dict[int, int]  # of the classes that have more than their share
    by_key: set[int]  # of these, those whose smallest keys stay; of others the first rows do
    keys: list[tuple[np.ndarray, Transfer]]


class Memory:
    """At most `size` samples, chosen by a policy.

    None is older than `age`, counted in arrivals, or than `days`, by the clock.

    >>> memory = Memory(4, Policy(random_key(torch.Generator())), torch.Generator())
    >>> memory.update(torch.rand(10, 3), torch.tensor([0] * 8 + [1] * 2), task=0)
    >>> sorted(memory.samples.y.tolist())  # both classes have the same room
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        size: int,
        policy: Policy,
        generator: torch.Generator,
        rule: Literal["even", "released"] = "even",
        device: torch.device | None = None,
        age: int | None = None,
        days: float | None = None,
    ) -> None:
        self.size, self.policy, self.rule, self.age, self.days = size, policy, rule, age, days
        self._came: deque[tuple[int, float]] = deque()  # arrivals, and when the first of them came
        self._device = device  # None: where the first sample is
        self._generator = generator
        self._table = Table(size)
        self._used = np.zeros(size, dtype=bool)
        self._groups: dict[int, np.ndarray] = {}  # places by class, classes sorted
        self._x = torch.empty(0)  # room for `size` x; made when the first one shows its shape
        self._y = torch.empty(0, dtype=torch.long)  # their labels, beside them
        self._arrived = 0
        self._offer: _Offer | None = None
        self._dropped = np.empty(0, dtype=np.float32)  # keys of the samples that went last

    @property
    def ahead(self) -> bool:
        """Whether gradient steps do not change what keys are, so that they can come before them."""
        return self.policy.scorer is None or self.policy.scorer.frozen

    def __len__(self) -> int:
        self._settle()
        return int(self._used.sum())

    @property
    def samples(self) -> Samples:
        """What is known of the remembered samples."""
        places = self._places()
        columns = self._table.columns().items()
        return Samples(**{name: torch.from_numpy(column[places]) for name, column in columns})

    @property
    def x(self) -> Tensor:
        """The remembered samples themselves, in the order of `samples`."""
        return self._x[torch.from_numpy(self._places())]

    def class_counts(self) -> list[list[int]]:
        """How many samples it holds of each class: [task in which they came, class, samples]."""
        places = self._places()
        task, y = self._table.task[places], self._table.y[places]
        width = int(y.max(initial=0)) + 1
        found, counts = np.unique(task * width + y, return_counts=True)  # pairs would sort slowly
        counted: list[list[int]] = np.stack([*divmod(found, width), counts], -1).tolist()
        return counted

    def update(self, x: Tensor, y: Tensor, task: int | None, current: Iterable[int] = ()) -> None:
        """Offers a mini-batch; `current` are the classes of the task (the `released` rule asks)."""
        self._settle()
        self._expire()
        new = self._enter(x, y.numpy(), task or 0)
        joined = self._joined(new)
        groups = self._groups | joined
        counts = {c: len(rows) for c, rows in groups.items()}
        # The released code fills the memory once; what rounding down empties later stays empty.
        filling = self._arrived <= self.size
        # Where classes outnumber the places, rounding down would leave none for any.
        split = even_shares if len(counts) > self.size else SHARE_RULES[self.rule]
        shares = {} if filling else split(counts, self.size)
        crowded = {c: share for c, share in shares.items() if counts[c] > share}
        released = self.rule == "released" and self.policy.balanced
        # There, past tasks' classes are cut from the end of their order.
        by_key = crowded.keys() & set(current) if released else set(crowded)
        asked = self._asked([groups[c] for c in sorted(by_key)], new, together=not released)
        keys = [(rows, Transfer(self.policy.key(self._candidates(rows, x)))) for rows in asked]
        self._offer = _Offer(x, groups, list(joined), crowded, by_key, keys)

    def draw(self, n: int, exclude_task: int | None = None, times: int = 1) -> Tensor:
        """The places of at most n different samples at random, none of the excluded task.

        Drawn several times, each anew: (times, n).
        """
        places = self._places()
        if exclude_task is not None:
            places = places[self._table.task[places] != exclude_task]
        shuffled = (torch.randperm(len(places), generator=self._generator) for _ in range(times))
        return torch.from_numpy(places)[torch.stack([order[:n] for order in shuffled])]

    def at(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """The samples at these places: (x, y)."""
        return self._x[places], self._y[places]

    def grow(self, classes: int, seed: int) -> None:
        """New classes have come: the model that scores is to know them."""
        if self.policy.scorer is not None:
            self.policy.scorer.grow(classes, seed)

    def before_round(self) -> None:
        """The client is about to take the global model."""
        if self.policy.scorer is not None:
            self.policy.scorer.round_passed("before-round")

    def after_round(self) -> None:
        """The client has taken the global model: keys that depend on a model are due again."""
        self._settle()
        if self.policy.scorer is not None:
            self.policy.scorer.round_passed("after-round")
        self._table.stale[:] = True

    def state(self) -> State:
        """Everything, for a checkpoint."""
        self._settle()
        ordered = np.concatenate([np.empty(0, dtype=np.int64), *self._groups.values()])
        places = torch.from_numpy(ordered)
        columns = self._table.columns().items()
        return {
            "x": self._x[places] if len(places) else self._x[:0],
            "places": places,
            "samples": {name: torch.from_numpy(column[ordered]) for name, column in columns},
            "generator": self._generator.get_state(),
            "scorer": self.policy.scorer.state() if self.policy.scorer else None,
            "arrived": self._arrived,
            "dropped": torch.from_numpy(self._dropped),
            "came": [list(pair) for pair in self._came],
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        self._generator.set_state(state["generator"])
        if self.policy.scorer is not None:
            self.policy.scorer.load_state(state["scorer"])
        self._arrived, self._offer = int(state["arrived"]), None
        self._dropped = state.get("dropped", torch.empty(0)).numpy()  # older ones have none
        self._came = deque((int(first), float(when)) for first, when in state.get("came", ()))
        places: np.ndarray = state["places"].numpy()
        for name, column in self._table.columns().items():
            column[places] = state["samples"][name].numpy()
        self._used[:] = False
        self._used[places] = True
        self._groups = self._by_class(places)
        if self._arrived:
            self._make_room(state["x"])
            self._put(places, state["x"].to(self._x.device), np.arange(len(places)))

    def _places(self) -> np.ndarray:
        self._settle()
        return np.flatnonzero(self._used)

    def _make_room(self, like: Tensor) -> None:
        if not len(self._x):
            self._x = like.new_zeros(self.size, *like.shape[1:], device=self._device)
            self._y = torch.zeros(self.size, dtype=torch.long, device=self._x.device)

    def _enter(self, x: Tensor, y: np.ndarray, task: int) -> np.ndarray:
        """Enters a mini-batch behind the places; gives its rows."""
        self._make_room(x)
        table, n = self._table, len(y)
        if len(table.y) < self.size + n:
            table.enlarge(self.size + n)
        new = np.arange(self.size, self.size + n)
        table.y[new], table.task[new], table.key[new], table.stale[new] = y, task, np.nan, False
        table.id[new] = np.arange(self._arrived, self._arrived + n)
        if self.days is not None:
            self._note_time(self.days * DAY)
        self._arrived += n
        return new

    def _expire(self) -> None:
        """Forgets samples that are too old."""
        if self.age is None and self.days is None:
            return
        young = self._table.id >= self._oldest()
        if young[: self.size][self._used].all():
            return
        self._used &= young[: self.size]
        kept = {c: rows[young[rows]] for c, rows in self._groups.items()}
        self._groups = {c: rows for c, rows in kept.items() if len(rows)}

    def _oldest(self) -> int:
        """The first arrival that may stay."""
        oldest = 0 if self.age is None else self._arrived - self.age
        if self.days is not None:
            while self._came and self._came[0][1] < time.time() - self.days * DAY:
                self._came.popleft()
            oldest = max(oldest, self._came[0][0] if self._came else self._arrived)
        return oldest

    def _note_time(self, period: float) -> None:
        """Notes when samples come; what comes within a thousandth of their time is one entry."""
        now = time.time()
        if not self._came or now - self._came[-1][1] > period / 1000:
            self._came.append((self._arrived, now))

    def _by_class(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """Rows by class, in their order; without balance all are of one."""
        if not self.policy.balanced:
            return {0: rows}
        y = self._table.y[rows]
        return {int(c): rows[y == c] for c in np.unique(y)}

    def _joined(self, new: np.ndarray) -> dict[int, np.ndarray]:
        """The classes that new rows are of, with these behind what there is."""
        before, none = self._groups, new[:0]
        offered = self._by_class(new).items()
        return {c: np.concatenate([before.get(c, none), rows]) for c, rows in offered}

    def _asked(
        self, crowded: list[np.ndarray], new: np.ndarray, together: bool
    ) -> list[np.ndarray]:
        """The rows whose keys are to be computed: of all crowded classes at once, or one by one."""
        key, stale = self._table.key, self._table.stale
        if self.policy.rekey == "at-risk":
            return [np.concatenate([self._at_risk(crowded, (len(new) + 1) // 2), new])]
        match self.policy.rekey:
            case "every-batch":
                asked = crowded
            case "every-round":
                asked = [rows[np.isnan(key[rows]) | stale[rows]] for rows in crowded]
            case "never":
                asked = [rows[np.isnan(key[rows])] for rows in crowded]
        if together and asked:
            asked = [np.sort(np.concatenate(asked))]
        return [rows for rows in asked if len(rows)]

    def _at_risk(self, crowded: list[np.ndarray], most: int) -> np.ndarray:
        """Of the rows with a key from before a round, those that would go first.

        The largest key of each class, then the second of each, and so on.
        """
        key, stale = self._table.key, self._table.stale
        old = [rows[stale[rows]] for rows in crowded]
        old = [rows[np.argsort(-key[rows], kind="stable")][:most] for rows in old]
        rows = np.concatenate([np.empty(0, dtype=np.int64), *old])
        ranks = np.concatenate([np.empty(0, dtype=np.int64), *(np.arange(len(r)) for r in old)])
        return rows[np.lexsort((-key[rows], ranks))][:most]

    def _candidates(self, rows: np.ndarray, x: Tensor) -> Tensor:
        """The samples at these rows: remembered ones, then those on offer."""
        remembered, offered = rows[rows < self.size], rows[rows >= self.size] - self.size
        if len(offered) < len(x):
            x = x.index_select(0, to_device(offered, x.device))
        if not len(remembered):
            return x
        return torch.cat([self._x.index_select(0, to_device(remembered, self._x.device)), x])

    def _settle(self) -> None:
        """Decides what stays of the samples on offer."""
        offer, self._offer = self._offer, None
        if offer is None:
            return
        for rows, keys in offer.keys:
            self._table.key[rows], self._table.stale[rows] = keys.numpy(), False
        leaving = []
        for c, share in offer.shares.items():
            rows = offer.groups[c]
            if c in offer.by_key:
                rows = rows[np.argsort(self._table.key[rows], kind="stable")]
            leaving.append(rows[share:])
            offer.groups[c] = rows[:share]
        if leaving:
            going = np.concatenate(leaving)
            self._note(self._table.key[going])
            self._used[going[going < self.size]] = False
        self._groups = {c: rows for c, rows in sorted(offer.groups.items()) if len(rows)}
        self._move_in(offer.x, offer.offered)

    def _note(self, keys: np.ndarray) -> None:
        """Keeps the keys of samples that go, of the newest ones: to be looked at, not to decide."""
        if self.policy.scorer is not None:
            known = keys[~np.isnan(keys)]
            self._dropped = np.concatenate([self._dropped, known])[-DROPPED:]

    def _move_in(self, x: Tensor, classes: Iterable[int]) -> None:
        """Puts what arrives of these classes where what goes was; nothing else moves."""
        arriving = {c: self._groups[c] >= self.size for c in classes if c in self._groups}
        arriving = {c: which for c, which in arriving.items() if which.any()}
        if not arriving:
            return
        came = np.concatenate([self._groups[c][which] for c, which in arriving.items()])
        free = np.flatnonzero(~self._used)[: len(came)]
        self._table.move(came, free)
        self._used[free] = True
        self._put(free, x, came - self.size)
        for c, which in arriving.items():
            taken, free = free[: which.sum()], free[which.sum() :]
            self._groups[c][which] = taken

    def _put(self, places: np.ndarray, x: Tensor, of: np.ndarray) -> None:
        at, source, y = to_device(np.stack([places, of, self._table.y[places]]), self._x.device)
        self._x.index_copy_(0, at, x.index_select(0, source))
        self._y.index_copy_(0, at, y)
