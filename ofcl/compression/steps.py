"""The global model moves in coded steps, so that everybody has the very same one.

The server rounds the new global model to what the coded step from the old one gives. Whoever has
the old model needs the step alone; everybody else gets the whole model.
"""

from __future__ import annotations

from typing import Literal

from ofcl.compression.codecs import Codec
from ofcl.compression.differences import Differences
from ofcl.state import State, Tensors, nbytes, same_tensors

Form = Literal["whole", "step", "same"]
"""How a model travels: as it is, as the step from the one before, or not, as nothing has changed.
"""


class Steps:
    """Makes the steps of the global model.

    Args:
        codec: How a step is coded.
        seed: The run's seed, from which the outputs of new classes are drawn.

    Attributes:
        tensors: The last step as it travels.
    """

    def __init__(self, codec: Codec, seed: int) -> None:
        self._differences = Differences(codec, seed)
        self._before: Tensors = {}
        self._after: Tensors = {}
        self.tensors: Tensors = {}

    def taken(self, new: Tensors, old: Tensors) -> Tensors:
        """Takes a step.

        Args:
            new: The global model that the server has averaged.
            old: The one before; its head may have fewer outputs.

        Returns:
            The global model that the step leads to: near the averaged one.
        """
        self.tensors, self._after = self._differences.code(new, old)
        self._differences.settle()
        self._before = dict(old)
        return dict(self._after)

    def form(self, known: Tensors, model: Tensors) -> Form:
        """Says in which form somebody needs the global model.

        Args:
            known: The model that he has; {}: nobody knows.
            model: The global model.
        """
        if known and same_tensors(known, model):
            return "same"
        if known and same_tensors(known, self._before) and same_tensors(self._after, model):
            return "step"
        return "whole"

    @property
    def nbytes(self) -> int:
        """The size of the last step in bytes."""
        return nbytes(self.tensors)

    def state(self) -> State:
        """Gives what the coding has lost so far, for a checkpoint."""
        return self._differences.state()

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave; the next model travels whole.

        Args:
            state: The state; empty: no step was taken.
        """
        self._differences.load_state(state)
