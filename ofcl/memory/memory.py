"""The memory of a client: a fixed number of samples of its stream, for replay against forgetting.

Every class has a share of the room: the same for all, and what a small class does not need goes to
the others (`even_shares`). Where a class has more samples than its share, those with the smallest
keys stay; a `Policy` says what the key is. A reservoir is the same with a random key and all
samples in one class.

Which samples of a mini-batch stay is decided when the memory is next read, or when the next
mini-batch comes. So nothing waits for keys that are still on their way from a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ofcl.compute.devices import Transfer
from ofcl.memory.choice import rows_to_compare
from ofcl.memory.contents import Contents
from ofcl.memory.expiry import Expiry
from ofcl.memory.offer import Offer
from ofcl.memory.policy import Policy, Unkeyed
from ofcl.memory.rekeying import rows_to_key
from ofcl.memory.replay_order import ReplayDraw, class_by_class, uncertain_first
from ofcl.memory.shares import SHARE_RULES, even_shares
from ofcl.memory.table import Samples
from ofcl.state import State, Tensors

DROPPED = 1000  # samples that went last, whose keys are kept for the report


class Memory:
    """A client's replay memory: at most `size` samples, chosen by a policy.

    >>> from ofcl.memory.policy import random_key
    >>> memory = Memory(4, Policy(random_key(torch.Generator())), torch.Generator())
    >>> memory.update(torch.rand(10, 3), torch.tensor([0] * 8 + [1] * 2), task=0)
    >>> sorted(memory.samples.y.tolist())  # both classes have the same room
    [0, 0, 1, 1]

    Args:
        size: The number of samples that fit in.
        policy: Decides which samples stay.
        generator: The generator of the draws for replay.
        rule: How the room is split over the classes: `even` by `even_shares`, `released` as in the
            paper's released code, by `released_shares`.
        device: The device that keeps the samples; None: the device of the first sample.
        age: The number of later arrivals after which a sample is forgotten; None: no limit.
        days: The number of days after which a sample is forgotten; None: no limit.
        replay_draw: How samples are drawn for replay: all alike (`uniform`), class by class
            (`class`), or uncertain ones more often (`key`).
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
        replay_draw: ReplayDraw = "uniform",
    ) -> None:
        self.size, self.policy, self.rule, self.device = size, policy, rule, device
        self._replay_draw = replay_draw
        self._generator = generator
        self._contents, self._expiry = Contents(size, device), Expiry(age, days)
        self._arrived = 0  # samples so far
        self._offer: Offer | None = None
        self._dropped = np.empty(0, dtype=np.float32)  # keys of the samples that went last

    @property
    def ahead(self) -> bool:
        """Whether the gradient steps of a mini-batch leave its keys as they are.

        Then the keys can be computed before the steps.
        """
        return self.policy.scorer is None or self.policy.scorer.frozen

    def __len__(self) -> int:
        return int(self._settled().used.sum())

    @property
    def samples(self) -> Samples:
        """Facts about the remembered samples: class, task, arrival, key, staleness of the key."""
        contents = self._settled()
        places, columns = contents.places(), contents.table.columns().items()
        return Samples(**{name: torch.from_numpy(column[places]) for name, column in columns})

    @property
    def x(self) -> Tensor:
        """The remembered samples themselves (n, …), in the order of `samples`."""
        contents = self._settled()
        return contents.store.x[torch.from_numpy(contents.places())]

    def class_counts(self) -> list[list[int]]:
        """Counts the remembered samples of each class and task.

        Returns:
            `[task in which the samples arrived, class, number of samples]`, sorted; [] if the
            memory is empty.
        """
        contents = self._settled()
        places = contents.places()
        task, y = contents.table.task[places], contents.table.y[places]
        width = int(y.max(initial=0)) + 1
        pairs, counts = np.unique(task * width + y, return_counts=True)  # two columns sort slowly
        rows: list[list[int]] = np.stack([*divmod(pairs, width), counts], -1).tolist()
        return rows

    held = class_counts  # its name before

    def update(self, x: Tensor, y: Tensor, task: int | None, current: Iterable[int] = ()) -> None:
        """Offers a mini-batch to the memory, and computes the keys that decide which samples stay.

        Args:
            x: The samples (n, …).
            y: Their classes (n,), on the CPU.
            task: The task in which they arrive; None counts as the first.
            current: The classes of the current task so far. Used only if `rule` is `released`.
        """
        self.set_keys([self.policy.keys(*some) for some in self.offer(x, y, task, current)])

    def offer(
        self, x: Tensor, y: Tensor, task: int | None, current: Iterable[int] = ()
    ) -> list[Unkeyed]:
        """Offers a mini-batch to the memory, and leaves the computing of keys to the caller.

        The caller hands the keys to `set_keys`. So it can compute the keys of several clients at
        once.

        Args:
            x: The samples (n, …).
            y: Their classes (n,), on the CPU.
            task: The task in which they arrive; None counts as the first.
            current: The classes of the current task so far. Used only if `rule` is `released`.

        Returns:
            The samples whose keys are needed to decide which samples stay, in groups. The keys of a
            group are computed in one call. [] if no keys are needed.
        """
        contents, policy = self._settled(), self.policy
        if not self._expiry.never:
            contents.forget_before(self._expiry.oldest(self._arrived))
        new = contents.enter(x, y.numpy(), task or 0, self._arrived)
        self._expiry.note_arrival(self._arrived)
        self._arrived += len(new)
        rows, classes = contents.join(new, policy.balanced)
        shares = self._crowded_shares({c: len(of_class) for c, of_class in rows.items()})
        released = self.rule == "released" and policy.balanced
        # The released code does not score past tasks' classes: it cuts them from the end.
        by_key = shares.keys() & set(current) if released else set(shares)
        crowded = [rows[c] for c in sorted(by_key)]
        table = contents.table
        to_key = rows_to_key(
            table,
            policy.rekey,
            crowded,
            new,
            together=not released,
            priority=policy.choice.priority,
        )
        compared = self._compared(crowded, x) if policy.choice.by_distance else None
        self._offer = Offer(x, classes, rows, shares, by_key, to_key, policy, compared)
        return [
            Unkeyed(contents.samples_at(some, x), torch.from_numpy(table.y[some]))
            for some in to_key
        ]

    def set_keys(self, keys: Iterable[Tensor]) -> None:
        """Takes the keys of the samples that `offer` returned.

        Args:
            keys: For each group of samples, their keys (n,), on the device that computed them.
        """
        assert self._offer is not None
        self._offer.keys.extend(map(Transfer, keys))

    def attach(self, extras: Tensors) -> None:
        """Remembers further tensors with the samples of the mini-batch that was offered last.

        They may be known only after its gradient steps. A sample that goes takes them with it.

        Args:
            extras: Tensors (n, …) of floats by name, with a row for each sample of the mini-batch,
                on the memory's device; the same names with every mini-batch.
        """
        assert self._offer is not None
        self._offer.extras.update(extras)

    def _compared(
        self, crowded: list[np.ndarray], offered: Tensor
    ) -> tuple[np.ndarray, Transfer] | None:
        """Measures the distances between the samples of each crowded class, or of a draw of them.

        Args:
            crowded: The table's rows of each class that has more samples than room.
            offered: The samples of the mini-batch on offer (n, …).

        Returns:
            The rows that were compared, and the distances between them (rows, rows); None if no
            class is crowded, or the policy has no scorer.
        """
        every = self.policy.choice.compare_all
        rows = rows_to_compare(self._contents.table, crowded, self._arrived, every)
        if self.policy.scorer is None or not len(rows):
            return None
        samples = self._contents.samples_at(rows, offered)
        return rows, Transfer(self.policy.scorer.distances_between(samples))

    def draw(self, n: int, exclude_task: int | None = None, times: int = 1) -> Tensor:
        """Draws samples for replay: the places of different samples, at random.

        Args:
            n: The number of samples in a draw; fewer are drawn if the memory has fewer.
            exclude_task: The task whose samples are not drawn; None: samples of all tasks are.
            times: The number of draws; each is made from all samples.

        Returns:
            Places (times, n), for `at`.
        """
        contents = self._settled()
        places = contents.places()
        if exclude_task is not None:
            places = places[contents.table.task[places] != exclude_task]
        orders = [self._replay_order(places) for _ in range(times)]
        return torch.from_numpy(places)[torch.stack([order[:n] for order in orders])]

    def _replay_order(self, places: np.ndarray) -> Tensor:
        """Draws the order in which samples are replayed.

        Args:
            places: The places of the samples (n,).

        Returns:
            The indices (n,) of `places` in that order.
        """
        table = self._contents.table
        match self._replay_draw:
            case "uniform":
                return torch.randperm(len(places), generator=self._generator)
            case "class":
                return class_by_class(table.y[places], self._generator)
            case "key":
                keys = table.key[places]
                uncertain = -keys if self.policy.reversed else keys
                return uncertain_first(uncertain, self._generator)

    def at(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the samples at some places, and their classes.

        Args:
            places: Places that `draw` returned, as one draw (n,) or all of them (times, n).
        """
        store = self._contents.store
        return store.x[places], store.y[places]

    def has(self, name: str) -> bool:
        """Says whether a further tensor is remembered with samples (`attach`).

        Args:
            name: The name of the tensor.
        """
        return name in self._contents.store.extras

    def extras_at(self, name: str, places: Tensor) -> Tensor:
        """Returns what `attach` gave for the samples at some places.

        Args:
            name: The name of the tensor. `logits` grow with the head; a logit of a class that was
                not known is NaN.
            places: Places that `draw` returned.
        """
        return self._contents.store.extras[name][places]

    def grow(self, classes: int, seed: int) -> None:
        """Adds outputs for new classes to the model that scores samples, and to kept logits.

        Args:
            classes: The number of classes now.
            seed: The run's seed, from which new outputs start.
        """
        self._settled().store.grow(classes)
        if self.policy.scorer is not None:
            self.policy.scorer.grow(classes, seed)

    def before_round(self) -> None:
        """Tells the scorer that the client is about to take the global model.

        A scorer that scores by the model from before a round copies the model now.
        """
        if self.policy.scorer is not None:
            self.policy.scorer.round_passed("before-round")

    def after_round(self) -> None:
        """Marks all keys as stale, because the client has just taken the global model.

        A scorer that scores by the model from after a round copies the model now. If keys are
        ranks, samples that arrive from now on are ranked among themselves.
        """
        contents = self._settled()
        if self.policy.scorer is not None:
            self.policy.scorer.round_passed("after-round")
        if self.policy.ranks is not None:
            self.policy.ranks.begin_time()
        contents.table.stale[:] = True

    def state(self) -> State:
        """Returns the samples, the scorer and everything else that changes, for a checkpoint."""
        contents = self._settled().state()  # first: it changes the ranks
        ranks = {} if self.policy.ranks is None else {"ranks": self.policy.ranks.state()}
        return {
            **contents,
            **ranks,
            "generator": self._generator.get_state(),
            "scorer": self.policy.scorer.state() if self.policy.scorer else None,
            "arrived": self._arrived,
            "dropped": torch.from_numpy(self._dropped),
            "came": self._expiry.state(),
        }

    def load_state(self, state: State) -> None:
        """Puts the memory back into a state that it was in.

        Args:
            state: The state that `state` returned.
        """
        self._generator.set_state(state["generator"])
        if self.policy.scorer is not None:
            self.policy.scorer.load_state(state["scorer"])
        if self.policy.ranks is not None:
            self.policy.ranks.load_state(state["ranks"])
        self._arrived, self._offer = int(state["arrived"]), None
        # Checkpoints of earlier versions have neither of these two.
        self._dropped = state.get("dropped", torch.empty(0)).numpy()
        self._expiry.load_state(state.get("came", ()))
        self._contents.load_state(state, self.policy.balanced)

    def _crowded_shares(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Returns the room of each crowded class: one that has more samples than room.

        Args:
            counts: The number of samples of each class, remembered or on offer.

        Returns:
            The room by class; {} until more samples have arrived than fit in.
        """
        # The released code fills the memory once; what rounding down empties later stays empty.
        if self._arrived <= self.size:
            return {}
        # Where classes outnumber the places, rounding down would leave none for any.
        rule = self.policy.shares or SHARE_RULES[self.rule]
        split = even_shares if len(counts) > self.size else rule
        shares = split(counts, self.size)
        return {c: share for c, share in shares.items() if counts[c] > share}

    def _settled(self) -> Contents:
        """Decides, if need be, which samples of the last offer stay, and returns the contents."""
        offer, self._offer = self._offer, None
        if offer is not None:
            keys = self._contents.settle(offer)
            if len(keys) and self.policy.scorer is not None:
                known = keys[~np.isnan(keys)]
                self._dropped = np.concatenate([self._dropped, known])[-DROPPED:]
        return self._contents
