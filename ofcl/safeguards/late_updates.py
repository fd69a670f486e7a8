"""Updates of clients that nobody waits for: each is moved to the newest model, and counts by age.

After FedBuff (Nguyen et al. 2022): the server averages whenever so many updates have come. An
update was learned from an older global model; what it adds to that model is added to the newest
one, times (1 + age)^−power, where the age is the number of rounds between the two models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ofcl.models.head import grown, width
from ofcl.state import State, Tensors, same_tensors
from ofcl.update import Update


@dataclass(frozen=True)
class Waiting:
    """An update that has come and is not averaged yet.

    Args:
        update: The update, as the client has sent it.
        base: The global model that the client had learned from.
        round: The number of rounds that made that model.
    """

    update: Update
    base: Tensors
    round: int


class LateUpdates:
    """Keeps the updates that have come, and which model each client learns from.

    Args:
        enough: So many updates make a round.
        power: How fast an update counts less as it gets older; 0: age does not matter.
        seed: The run's seed, from which the outputs of new classes are drawn.
    """

    def __init__(self, enough: int, power: float, seed: int) -> None:
        self.enough, self._power, self._seed = enough, power, seed
        self._waiting: list[Waiting] = []
        self._taken: dict[int, tuple[int, Tensors]] = {}  # round and model, of each client
        self._first: Tensors = {}
        self.unanswered: int | None = None  # the client whose update has come last

    def begin(self, model: Tensors) -> None:
        """Notes the initial model, from which all clients start.

        Args:
            model: The initial global model.
        """
        self._first = dict(model)

    def hand(self, model: Tensors, round: int) -> None:
        """Notes the model that the unanswered client has taken and learns from.

        Args:
            model: The global model.
            round: The number of rounds that made it.
        """
        assert self.unanswered is not None
        self.hand_to(self.unanswered, model, round)
        self.unanswered = None

    def hand_to(self, client: int, model: Tensors, round: int) -> None:
        """Notes the model that a client has taken and learns from.

        Args:
            client: The number of the client.
            model: The global model.
            round: The number of rounds that made it.
        """
        self._taken[client] = round, dict(model)

    def add(self, update: Update) -> None:
        """Takes in an update.

        Args:
            update: The update; its client learned from the model that it was handed last.
        """
        number, base = self._taken.get(update.client, (0, self._first))
        self._waiting.append(Waiting(update, base, number))
        self.unanswered = update.client

    @property
    def full(self) -> bool:
        """Whether enough updates for a round have come."""
        return len(self._waiting) >= self.enough

    @property
    def empty(self) -> bool:
        """Whether no update waits."""
        return not self._waiting

    def take(self, model: Tensors, round: int) -> tuple[list[Update], list[int]]:
        """Takes out the updates that wait, moved to the newest model.

        Args:
            model: The global model.
            round: The number of rounds that made it.

        Returns:
            The updates in the order in which they came, and their ages.
        """
        ages = [round - one.round for one in self._waiting]
        moved = [
            self._moved(one, model, (1 + age) ** -self._power)
            for one, age in zip(self._waiting, ages, strict=True)
        ]
        self._waiting = []
        return moved, ages

    @torch.no_grad()
    def _moved(self, one: Waiting, model: Tensors, weight: float) -> Update:
        """Adds what an update adds to its base to the newest model, times its weight."""
        classes = max(map(width, (model, one.base, one.update.state)))
        to, base, state = (
            grown(tensors, classes, self._seed) for tensors in (model, one.base, one.update.state)
        )
        moved = {}
        for name, value in state.items():
            # A sum of differences could make a variance negative; a mean of variances cannot.
            start = to[name] if name.endswith(("running_mean", "running_var")) else base[name]
            moved[name] = to[name] + weight * (value - start.to(value))
        return replace(one.update, state=moved)

    def state(self) -> State:
        """Gives all of it for a checkpoint; each model once."""
        models: list[Tensors] = [self._first]

        def place(model: Tensors) -> int:
            """Finds the model's place among those that are saved, or gives it one."""
            for number, known in enumerate(models):
                if same_tensors(known, model):
                    return number
            models.append(model)
            return len(models) - 1

        return {
            "taken": [[k, n, place(model)] for k, (n, model) in sorted(self._taken.items())],
            "waiting": [
                {**_packed(one.update), "base": place(one.base), "round": one.round}
                for one in self._waiting
            ],
            "models": models,
            "unanswered": self.unanswered,
        }

    def load_state(self, state: State, device: torch.device) -> None:
        """Puts back what `state` gave.

        Args:
            state: The state; empty: nothing has happened yet.
            device: Where the server's tensors are.
        """
        if not state:
            return
        models = [{n: v.to(device) for n, v in model.items()} for model in state["models"]]
        self._first, self.unanswered = models[0], state["unanswered"]
        self._taken = {int(k): (int(n), models[place]) for k, n, place in state["taken"]}
        self._waiting = [
            Waiting(_unpacked(saved, device), models[saved["base"]], int(saved["round"]))
            for saved in state["waiting"]
        ]


def _packed(update: Update) -> State:
    """Turns an update into a state."""
    return {**vars(update), "classes": [list(item) for item in sorted(update.classes.items())]}


def _unpacked(state: State, device: torch.device) -> Update:
    """Reads an update that `_packed` has packed."""
    state_, extras, coded = (
        {key: value.to(device) for key, value in state[name].items()}
        for name in ("state", "extras", "coded")
    )
    classes = dict(state["classes"])
    return Update(state["client"], state_, state["samples"], classes, extras, state["sent"], coded)
