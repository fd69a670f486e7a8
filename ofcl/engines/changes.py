"""Settings of a run that change while it goes on: orders of the operator, taken between rounds.

An order is taken once. The values in force travel with every request, so a client that was away
hears of them with its next one, and a client that is killed learns with the same values again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ofcl.events import Changed
from ofcl.state import State

CHANGEABLE = ("lr", "q")
"""The settings that may change within a run: no state of a client or server depends on them."""


class Changes:
    """Takes orders, and knows the values in force.

    Args:
        orders: Gives all orders of the run so far, the oldest first; each has new values by name.
        noted: Is given the values in force when they change, and again when a run is resumed.
        tell: Is given a line for the user for each order.
    """

    def __init__(
        self,
        orders: Callable[[], Sequence[State]],
        noted: Callable[[State], None] = lambda values: None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._orders, self._noted, self._tell = orders, noted, tell
        self._taken: list[State] = []

    @property
    def in_force(self) -> State:
        """The changed values by the names of their settings; empty: nothing has changed."""
        return {name: value for order in self._taken for name, value in order.items()}

    def take(self) -> list[Changed]:
        """Takes the orders that have come since the last time.

        Returns:
            An event for each order.
        """
        new = [dict(order) for order in self._orders()[len(self._taken) :]]
        for order in new:
            self._taken.append(order)
            self._noted(self.in_force)
            self._tell(f"from the next requests on: {in_words(order)}")
        return [Changed(order) for order in new]

    def state(self) -> list[State]:
        """Gives the orders that were taken, for a checkpoint."""
        return [dict(order) for order in self._taken]

    def load_state(self, taken: Sequence[State]) -> None:
        """Puts back the orders that were taken.

        Args:
            taken: What `state` gave; earlier versions had none.
        """
        self._taken = []
        for order in taken:  # one by one: the largest value of a setting may be an earlier one
            self._taken.append(dict(order))
            self._noted(self.in_force)


def in_words(values: State) -> str:
    """Says new values of settings in a line.

    Args:
        values: The values by the names of the settings.

    >>> in_words({"lr": 0.01, "q": 10})
    'lr is 0.01, q is 10'
    """
    return ", ".join(f"{name} is {value}" for name, value in values.items())
