"""Earlier global models, to which the server goes back when the newest one is spoilt."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from ofcl.state import Spare, State, Tensors, flatten

KEPT = 2  # earlier models that are kept
EVERY = 5  # rounds between two that are kept
TIMES = 10.0  # a loss that is so many times the largest one before is a spoilt model's
FAILURES = 3  # exchanges in which most parties fail, one after the other
# Losses below are never called spoilt: where a new task begins, an honest model's reaches 20.
LEAST_LOSS = 100.0


class EarlierModels:
    """Keeps a few earlier global models, and says when the newest one is spoilt.

    Where parties fail, the model need not be the reason: their policies may refuse the run, or a
    network between them and their data be down. So the newest model is put aside, and if most fail
    with all earlier ones, too, before anybody has learned, the newest is taken again.
    """

    def __init__(self) -> None:
        self._models: list[tuple[int, Spare]] = []  # (round, model), the oldest first
        self._largest = 0.0  # the largest of the parties' median losses
        self._failures = 0  # exchanges in a row in which most have failed
        self.by_failures = False  # whether failures are why the newest model was called spoilt
        self._aside: list[tuple[int, Spare]] = []  # the newest model, while an earlier one is tried
        self._tried = 0  # how many earlier models are tried, the newest of them first
        self.acquitted = False  # whether most fail with all earlier models, too

    def keep(self, number: int, model: Tensors) -> None:
        """Keeps a model before the next round changes it, unless one of the last rounds is kept.

        Args:
            number: How many rounds there have been.
            model: The global model after them.
        """
        if not self._models or number - self._models[-1][0] >= EVERY:
            self._models = [*self._models, (number, Spare(flatten(model).tensors))][-KEPT:]

    def spoilt(self, losses: Sequence[float], failed: bool) -> bool:
        """Says whether what parties tell of an exchange means that the global model is spoilt.

        Args:
            losses: The mean loss of each party that has learned in the exchange.
            failed: Whether no party has answered, and most parties of the federation say that they
                failed.
        """
        # Who has failed is asked again only after some seconds: exchanges between say nothing.
        self._failures = self._failures + 1 if failed else 0 if losses else self._failures
        self.by_failures = self._failures >= FAILURES
        if self.by_failures:
            self._failures = 0
            return not self.acquitted
        if not losses:
            return False
        self._aside, self._tried, self.acquitted = [], 0, False
        loss = statistics.median_low(losses)
        if loss > max(TIMES * self._largest, LEAST_LOSS):
            return True
        self._largest = max(self._largest, loss)
        return False

    def go_back(self, number: int, model: Tensors) -> tuple[int, Tensors] | None:
        """Gives the model to take now, and its round; None: there is none.

        Args:
            number: How many rounds there have been.
            model: The newest global model.
        """
        if not self._models:
            self.acquitted = self.by_failures  # there is nothing to try: it is said once
            return None
        if not self.by_failures:
            return self._models.pop()
        self._aside = self._aside or [(number, Spare(flatten(model).tensors))]
        if self._tried < len(self._models):
            self._tried += 1
            return self._models[-self._tried]
        self._tried, self.acquitted = 0, True
        return self._aside.pop()

    def state(self) -> State:
        """Gives the kept models, for a checkpoint."""
        return {
            "rounds": [number for number, _ in self._models],
            "models": [model for _, model in self._models],
            "largest": self._largest,
            "aside": [list(model) for model in self._aside],
            "tried": self._tried,
            "acquitted": self.acquitted,
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: What `state` gave; empty in checkpoints of earlier versions.
        """
        saved = zip(state.get("rounds", []), state.get("models", []), strict=True)
        self._models = _whole(saved)
        self._aside = _whole(state.get("aside", []))
        self._tried = min(int(state.get("tried", 0)), len(self._models))
        self.acquitted = bool(state.get("acquitted", False))
        self._largest = float(state.get("largest", 0.0))


def _whole(saved: Iterable[Sequence[Any]]) -> list[tuple[int, Spare]]:
    """Reads models and their rounds; a model whose file was damaged has no tensors.

    Args:
        saved: The rounds and the models.
    """
    return [
        (int(number), model if isinstance(model, Spare) else Spare(model))
        for number, model in saved
        if model
    ]
