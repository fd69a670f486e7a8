"""A learner beside another: it learns the same mini-batches, and never takes part in a round."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ofcl.data.stream import Batch
from ofcl.memory.memory import Memory
from ofcl.methods.learner import Learner
from ofcl.methods.new_samples import NewSamples
from ofcl.pretrained.referred import load_saved, saved_state
from ofcl.state import State, Tensors


class Accompanied:
    """A client's learner, and one that learns from the client's data alone (a `Learner`).

    Both learn every mini-batch, each with its own model, memory and generators. Only the client's
    learner hears of rounds, and only its model is sent.

    Args:
        learner: The client's learner.
        alone: The learner that rounds do not reach, built like the first one.
    """

    def __init__(self, learner: Learner, alone: Learner) -> None:
        self._learner, self._alone = learner, alone
        self.memory, self.penalty = learner.memory, learner.penalty
        self.new_samples = NewSamples()  # that the client's model, and the one alone, predict
        self.complete = True  # whether `alone` has learned every mini-batch of the client

    @property
    def learner(self) -> Learner:
        """The client's learner."""
        return self._learner

    @property
    def model(self) -> nn.Module:
        """The client's model."""
        return self._learner.model

    @property
    def model_alone(self) -> nn.Module:
        """The model that learns from the client's data alone."""
        return self._alone.model

    @property
    def memory_alone(self) -> Memory | None:
        """The memory of that model."""
        return self._alone.memory

    def learn(self, batch: Batch, current: Sequence[int]) -> Tensor:
        """Lets the client's learner and the one that learns alone learn a mini-batch.

        Args:
            batch: The mini-batch.
            current: The classes of its task that have been seen so far.

        Returns:
            The measurement (3,) of the client's learner, as `methods.learner.measured` makes it.
        """
        measurement = self._learner.learn(batch, current)
        if self.complete:
            alone = self._alone.learn(batch, current)
            self.new_samples.add(len(batch.y), measurement[1], alone[1])
        return measurement

    def grow(self, classes: int, seed: int) -> None:
        """Gives both models outputs for new classes.

        Args:
            classes: How many outputs there are afterwards.
            seed: The run's seed, from which the weights of new outputs are drawn.
        """
        self._learner.grow(classes, seed)
        self._alone.grow(classes, seed)

    def before_round(self) -> None:
        """Tells the client's learner that a round comes."""
        self._learner.before_round()

    def after_round(self, global_model: Tensors) -> None:
        """Tells the client's learner that the client has taken the global model.

        Args:
            global_model: The global model's tensors by name.
        """
        self._learner.after_round(global_model)

    def end_task(self) -> None:
        """Tells both that the client's task has ended."""
        self._learner.end_task()
        self._alone.end_task()

    def before_test(self) -> None:
        """Tells both that their models are about to be tested."""
        self._learner.before_test()
        self._alone.before_test()

    def sends(self) -> Tensors:
        """Returns the tensors that the client's learner sends besides the model."""
        return self._learner.sends()

    def receives(self, global_model: Tensors, handed: Tensors) -> None:
        """Hands the tensors of the server to the client's learner.

        Args:
            global_model: The global model's tensors by name.
            handed: The tensors that the method's server part returned from `end_task`.
        """
        self._learner.receives(global_model, handed)

    def state(self) -> State:
        """Returns the state of both, for a checkpoint; that of the second has its model too."""
        state = self._learner.state()
        if self.complete:
            state["alone"] = {"model": saved_state(self._alone.model), **self._alone.state()}
            state["new_samples"] = self.new_samples.state()
        return state

    def load_state(self, state: State) -> None:
        """Restores both from what `state` returned.

        If the state is of a learner that nobody accompanied, the second one has missed
        mini-batches. Then it stays out (`complete` is False).

        Args:
            state: The state.
        """
        self._learner.load_state(state)
        self.complete = "alone" in state
        if self.complete:
            load_saved(self._alone.model, state["alone"]["model"])
            self._alone.load_state(state["alone"])
            self.new_samples.load_state(state.get("new_samples", {}))
