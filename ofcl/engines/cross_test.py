"""The server's side of cross-site validation: each party's model is tested on the others' data.

When all clients have finished, the server asks who agrees; who does sends its own model. Then every
model travels to all that agree, one model an exchange. At the end each client is told how good its
model is elsewhere. Each step is an exchange like any other, so kills and repetitions are dealt with
in one place (`remote`, `responder`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ofcl.engines.messages import Reply, Request
from ofcl.engines.rejection import MOST_TESTED, Rejected, check_count, check_same
from ofcl.events import GLOBAL_MODEL, CrossTested, Event
from ofcl.state import State, Tensors
from ofcl.update import network_alone

FEWEST = 2  # clients that have to agree

Exchange = Callable[[Mapping[int, Request]], Mapping[int, State]]
"""Sends requests, as `Channel.exchange`, and waits for who is away, but not for ever."""


class CrossTest:
    """Leads the cross-site validation of a run: whom to ask for what, and what they have counted.

    A client that does not answer a step, whose answer is rejected, or that does not agree any more,
    is not asked again. The model of the last of these travels no further.

    Args:
        names: The names of the clients; clients that agree are told those of each other.
        exchange: Sends the requests.
        check: Raises `Rejected` for a client's model that cannot be right.
        tell: Is given each line for the user.

    Attributes:
        exchange: Sends the requests.
    """

    def __init__(
        self,
        names: Sequence[str],
        exchange: Exchange,
        check: Callable[[Tensors], None],
        tell: Callable[[str], None],
    ) -> None:
        self._names, self.exchange, self._check, self._tell = list(names), exchange, check, tell
        self._models: dict[int, Tensors] = {}  # of the clients that agree, each one's own
        self._asked: list[int] = []  # of those that agree, who has answered every step so far
        self._steps: list[State] = [{"step": "ask"}]  # that are still to be taken
        self._counts: dict[int, dict[int, list[int]]] = {}  # model → client → right, samples
        self._answers: dict[int, State] = {}  # to the step that is being taken

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return not self._steps

    def requests(self, model: Tensors, gone: Collection[int]) -> dict[int, tuple[State, Tensors]]:
        """Gives what the clients are to be asked for now.

        Args:
            model: The global model.
            gone: The numbers of the clients that are not asked any more.

        Returns:
            For the number of each client the step, and the model that goes with it.
        """
        step, self._answers = self._steps[0], {}
        if step["step"] == "ask":
            return {k: (step, {}) for k in range(len(self._names)) if k not in gone}
        clients = [k for k in self._asked if k not in gone]
        if step["step"] == "results":
            return {k: ({**step, "elsewhere": self._elsewhere(k)}, {}) for k in clients}
        own = step["model"] != GLOBAL_MODEL
        tested = self._models[step["model"]] if own else network_alone(model)
        return dict.fromkeys(clients, (step, tested))

    def _elsewhere(self, client: int) -> list[list[Any]]:
        """Lists how a client's model did on the data of the others: name, right, samples."""
        counts = self._counts.get(client, {})
        return [[self._names[k], *counts[k]] for k in sorted(counts) if k != client]

    def take(self, reply: Reply) -> None:
        """Takes the answer of a client to the present step.

        Args:
            reply: The client's reply.

        Raises:
            Rejected: If the answer cannot be right.
        """
        step, answer = self._steps[0], reply.cross
        if reply.status != "finished":
            raise Rejected(f"its status is {reply.status}; expected finished")
        if not isinstance(answer, dict) or type(answer.get("agrees")) is not bool:
            raise Rejected("it does not say whether it agrees to cross-site validation")
        if answer["agrees"] and step["step"] == "ask":
            if not isinstance(answer.get("model"), dict):
                raise Rejected("it agrees to cross-site validation, and its model is missing")
            self._check(answer["model"])
        if answer["agrees"] and step["step"] == "test":
            self._check_counts(reply.client, answer, step["model"])
        self._answers[reply.client] = answer

    def _check_counts(self, client: int, answer: State, model: int) -> None:
        """Rejects impossible counts of right predictions and samples."""
        check_same("model", answer.get("model"), model)
        check_count("number of test samples", answer.get("samples"), MOST_TESTED)
        check_count("number of right predictions", answer.get("right"), answer["samples"])
        for counts in self._counts.values():
            if client in counts:
                check_same("number of test samples", answer["samples"], counts[client][1])

    def advance(self) -> list[Event]:
        """Ends the present step with the answers that have come, and turns to the next one.

        Returns:
            A `CrossTested` if the step has tested a model on anybody's data.
        """
        step = self._steps.pop(0)
        yes = [k for k, answer in sorted(self._answers.items()) if answer["agrees"]]
        if step["step"] == "ask":
            self._begin(yes)
            return []
        self._leave_out(yes, step)
        if step["step"] != "test" or not yes:
            return []
        counts = {k: [self._answers[k]["right"], self._answers[k]["samples"]] for k in yes}
        self._counts[step["model"]] = counts
        right, samples = ([counts[k][n] for k in yes] for n in range(2))
        return [CrossTested(step["model"], yes, right, samples)]

    def _begin(self, agreed: list[int]) -> None:
        """Plans the steps after the first; says who takes part."""
        self._asked = agreed
        names = ", ".join(self._names[k] for k in agreed) or "nobody"
        if len(agreed) < FEWEST:
            self._tell(f"no cross-site validation: it needs {FEWEST} parties that agree, and "
                       f"{names} {'does' if agreed else 'has agreed'}")  # fmt: skip
            return
        self._tell(f"cross-site validation between {names}")
        self._models = {k: self._answers[k]["model"] for k in agreed}
        tests: list[State] = [{"step": "test", "model": GLOBAL_MODEL, "name": ""}]
        tests += [{"step": "test", "model": k, "name": self._names[k]} for k in agreed]
        self._steps = [*tests, {"step": "results"}]

    def _leave_out(self, answered: list[int], step: State) -> None:
        """Leaves out clients that have not answered a step, or do not agree any more."""
        for client in [k for k in self._asked if k not in answered]:
            withdrawn = client in self._answers
            why = "does not agree any more" if withdrawn else "has not answered"
            ends = "has ended" if step["step"] == "results" else "goes on"
            self._tell(f"cross-site validation {ends} without {self._names[client]}, which {why}")
            if withdrawn:
                self._steps = [step for step in self._steps if step.get("model") != client]
        self._asked = [k for k in self._asked if k in answered]
        if not self._asked:
            self._steps = []
        if self.over:
            self._models = {}

    def state(self) -> State:
        """Gives all of it as plain values and tensors, for a checkpoint."""
        return {
            "models": {str(client): model for client, model in self._models.items()},
            "asked": list(self._asked),
            "steps": list(self._steps),
            "counts": [[model, k, *pair] for model, counts in self._counts.items()
                       for k, pair in counts.items()],
        }  # fmt: skip

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: The state; empty: the checkpoint is of an earlier version, which had none.
        """
        if not state:
            return
        self._models = {int(client): model for client, model in state["models"].items()}
        self._asked, self._steps = list(state["asked"]), list(state["steps"])
        self._counts = {}
        for model, client, right, samples in state["counts"]:
            self._counts.setdefault(model, {})[client] = [right, samples]
