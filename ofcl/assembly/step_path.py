"""The way in which a run computes its gradient steps, for the lines that a user sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ofcl.methods.accompanied import Accompanied
from ofcl.methods.field.gdumb import GDumb
from ofcl.methods.learner import Learner
from ofcl.methods.replay import Replay
from ofcl.methods.stacked import MOST, stackable

_MEANS = {
    "captured": "recorded once and replayed by the GPU",
    "stacked": f"those of up to {MOST} clients as one computation",
    "plain": "each client by itself, step by step",
}


@dataclass(frozen=True)
class StepPath:
    """How gradient steps are computed.

    Args:
        path: `captured`: a GPU replays them from a graph (`compute/cuda_graphs.py`). `stacked`: a
            CPU computes those of several clients at once (`methods/stacked.py`). `plain`: neither.
        precision: The precision of the network in them.
    """

    path: Literal["captured", "stacked", "plain"]
    precision: str

    def in_words(self) -> str:
        """Describes the path in a line."""
        return f"gradient steps: {self.path} ({_MEANS[self.path]}), in {self.precision}"


def find_step_path(learners: Sequence[Learner]) -> StepPath:
    """Finds how the learners of one process compute their gradient steps.

    Args:
        learners: The learners of its clients, at least one.
    """
    learner = learners[0]
    if isinstance(learner, Accompanied):
        learner = learner.learner
    if len(learners) > 1 and all(stackable(each) for each in learners):
        return StepPath("stacked", "float32")
    if isinstance(learner, Replay):
        return StepPath("captured" if learner.replays else "plain", learner.computes_in)
    replays = isinstance(learner, GDumb) and learner.replays
    return StepPath("captured" if replays else "plain", "float32")
