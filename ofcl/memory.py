"""The memory of a client: a fixed number of samples of its stream, for replay against forgetting.

Every class has a share of the room: the same for all, and what a small class does not need goes to
the others (`even_shares`). Where a class has more candidates than its share, those with the
smallest keys stay; a `Policy` says what the key is. A reservoir is the same with a random key and
all samples in one class. Keys are computed only when something must go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from ofcl.state import State
from ofcl.uncertainty import Scorer

_NO_KEY = float("nan")

Key = Callable[[Tensor], Tensor]
"""Samples x (n, …) → what to sort them by (n,); the smallest stay."""


@dataclass(frozen=True)
class Policy:
    """Which samples stay.

    `balanced` splits the room evenly over the classes. `rekey` says when keys are computed anew:
    `never` (a key drawn on arrival lasts), after `every-round`, or with `every-batch`. A key that
    depends on a model comes with the `scorer` that holds it.
    """

    key: Key
    balanced: bool = True
    rekey: Literal["never", "every-round", "every-batch"] = "never"
    scorer: Scorer | None = None


def random_key(generator: torch.Generator) -> Key:
    """A key drawn at random: a uniform sample stays."""
    return lambda x: torch.rand(len(x), generator=generator).to(x.device)


@dataclass
class Samples:
    """What is known of samples besides their x: tensors (n,) with an entry each, on the CPU."""

    y: Tensor  # place of the label in the vocabulary
    task: Tensor  # task in which it arrived
    id: Tensor  # number of its arrival in the stream: 0, 1, …
    key: Tensor  # what the policy sorts by

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Tensor) -> Samples:
        return Samples(*(getattr(self, f.name)[rows] for f in fields(self)))

    def join(self, other: Samples) -> Samples:
        """These, then the others."""
        names = [f.name for f in fields(self)]
        return Samples(*(torch.cat([getattr(self, n), getattr(other, n)]) for n in names))


class Memory:
    """At most `size` samples, chosen by a policy.

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
    ) -> None:
        self.size, self.policy, self.rule = size, policy, rule
        self._device = device  # None: where the first sample is
        none = torch.empty(0, dtype=torch.long)
        self.samples = Samples(none, none, none, torch.empty(0))
        self._generator = generator
        self._store = torch.empty(0)  # room for `size` x; made when the first one shows its shape
        self._slot = torch.empty(0, dtype=torch.long)  # where in the store the x of each sample is
        self._arrived = 0
        self._expired = False

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def x(self) -> Tensor:
        """The remembered samples themselves, in the order of `samples`."""
        return self._store[self._slot]

    def update(self, x: Tensor, y: Tensor, task: int | None, current: Iterable[int] = ()) -> None:
        """Offers a mini-batch; `current` are the classes of the task (the `released` rule asks)."""
        if not len(self._store):
            self._make_room(x)
        y = y.cpu()
        ids = torch.arange(self._arrived, self._arrived + len(y))
        new = Samples(y, torch.full_like(y, task or 0), ids, torch.full((len(y),), _NO_KEY))
        self._arrived += len(y)
        candidates = self.samples.join(new)
        if self._expired or self.policy.rekey == "every-batch":
            candidates.key.fill_(_NO_KEY)
            self._expired = False
        self._keep(candidates, self._choose(candidates, x, set(current)), x)

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
        if self.policy.scorer is not None:
            self.policy.scorer.round_passed("after-round")
        self._expired = self._expired or self.policy.rekey == "every-round"

    def draw(self, n: int, exclude_task: int | None = None) -> tuple[Tensor, Tensor]:
        """At most n different samples at random, none of the excluded task: (x, y)."""
        rows = torch.arange(len(self))
        if exclude_task is not None:
            rows = rows[self.samples.task != exclude_task]
        chosen = rows[torch.randperm(len(rows), generator=self._generator)[:n]]
        return self._store[self._slot[chosen]], self.samples.y[chosen].to(self._store.device)

    def state(self) -> State:
        """Everything, for a checkpoint."""
        return {
            "x": self.x,
            "samples": {f.name: getattr(self.samples, f.name) for f in fields(Samples)},
            "generator": self._generator.get_state(),
            "scorer": self.policy.scorer.state() if self.policy.scorer else None,
            "arrived": self._arrived,
            "expired": self._expired,
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        x: Tensor = state["x"]
        self._generator.set_state(state["generator"])
        if self.policy.scorer is not None:
            self.policy.scorer.load_state(state["scorer"])
        self._arrived, self._expired = int(state["arrived"]), bool(state["expired"])
        if self._arrived:
            self._make_room(x)
            self._store[: len(x)] = x
        self._slot = torch.arange(len(x))
        self.samples = Samples(**state["samples"])

    def _make_room(self, like: Tensor) -> None:
        self._store = like.new_zeros(self.size, *like.shape[1:], device=self._device)

    def _choose(self, candidates: Samples, x: Tensor, current: set[int]) -> Tensor:
        """The rows of the candidates that stay."""
        group = candidates.y if self.policy.balanced else torch.zeros_like(candidates.y)
        counts = Counter(group.tolist())
        # The released code fills the memory once; what rounding down empties later stays empty.
        filling = self._arrived <= self.size
        # Where classes outnumber the places, rounding down would leave none for any.
        split = even_shares if len(counts) > self.size else _SHARES[self.rule]
        shares = dict(counts) if filling else split(counts, self.size)
        crowded = {c: (group == c).nonzero().squeeze(1) for c in counts if counts[c] > shares[c]}
        if self.rule == "even" or not self.policy.balanced:
            if crowded:
                self._fill_keys(candidates, x, torch.cat(list(crowded.values())).sort().values)
            by_key = set(crowded)
        else:  # class by class, and past tasks' classes are cut from the end of their order
            by_key = crowded.keys() & current
            for c in by_key:
                self._fill_keys(candidates, x, crowded[c])
        kept = [torch.isin(group, torch.tensor(list(crowded)), invert=True).nonzero().squeeze(1)]
        for c, rows in crowded.items():
            order = candidates.key[rows].argsort(stable=True) if c in by_key else slice(None)
            kept.append(rows[order][: shares[c]])
        return torch.cat(kept)

    def _fill_keys(self, candidates: Samples, x: Tensor, rows: Tensor) -> None:
        """Computes the keys that are missing among these rows."""
        missing = rows[candidates.key[rows].isnan()]
        if len(missing):
            old = len(candidates) - len(x)
            remembered = self._store[self._slot[missing[missing < old]]]
            offered = x[missing[missing >= old] - old]
            candidates.key[missing] = self.policy.key(torch.cat([remembered, offered])).cpu()

    def _keep(self, candidates: Samples, kept: Tensor, x: Tensor) -> None:
        """Puts what arrives where what goes was; nothing else in the store moves."""
        slot = torch.cat([self._slot, torch.full((len(x),), -1)])[kept]
        arriving = slot < 0
        free = torch.ones(self.size, dtype=torch.bool)
        free[slot[~arriving]] = False
        slot[arriving] = free.nonzero().squeeze(1)[: int(arriving.sum())]
        self._store[slot[arriving]] = x[kept[arriving] - len(self)]
        self._slot, self.samples = slot, candidates[kept]


def even_shares(counts: Mapping[int, int], size: int) -> dict[int, int]:
    """The room of each class: the same for all that can use it; the rest for the largest.

    >>> even_shares({0: 9, 1: 2, 2: 9}, 9)
    {0: 4, 1: 2, 2: 3}
    """
    shares, left = {}, size
    for place, c in enumerate(sorted(counts, key=lambda c: (counts[c], -c))):
        shares[c] = min(counts[c], left // (len(counts) - place))
        left -= shares[c]
    return dict(sorted(shares.items()))


def released_shares(counts: Mapping[int, int], size: int) -> dict[int, int]:
    """The paper's released code: rounded down, so that some room may stay empty.

    >>> released_shares({0: 9, 1: 2, 2: 9}, 9)
    {0: 3, 1: 2, 2: 3}
    """
    small = {c: n for c, n in counts.items() if n <= size // len(counts)}
    others = len(counts) - len(small)
    share = (size - sum(small.values())) // others if others else 0
    return {c: small.get(c, share) for c in counts}


_SHARES = {"even": even_shares, "released": released_shares}
