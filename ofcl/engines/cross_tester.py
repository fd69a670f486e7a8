"""A client's side of cross-site validation: it agrees or not, and tests models on its test data.

ask      says whether it takes part, and if so sends its own model
test     tests a model, and gives the number of its test samples and of the right predictions
results  hears how good its own model is on the data of others

A model is tested once for each client and once as the global one: asked again, the client repeats
its counts. They are part of its saved state, so a server cannot find out about the test data with
one model after the other, and a client that was killed gives the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ofcl.client import Client
from ofcl.compute.devices import all_to_device
from ofcl.engines.messages import Request
from ofcl.engines.rejection import (
    MOST_TESTED,
    Rejected,
    check_count,
    check_label,
    check_tensors,
)
from ofcl.errors import OfclError
from ofcl.events import GLOBAL_MODEL
from ofcl.state import State, Tensors
from ofcl.update import network_alone, travelling

MOST_MODELS = 1000  # models of others that are tested at most


class Row(NamedTuple):
    """A model of somebody on the test data of somebody else.

    Args:
        name: The name of the other one; "": the model is the global one.
        right: The number of samples that the model predicts right.
        samples: The number of test samples.
    """

    name: str
    right: int
    samples: int

    @property
    def accuracy(self) -> float | None:
        """The share of samples that the model predicts right, in percent; None: there are none."""
        return 100 * self.right / self.samples if self.samples else None


Told = Callable[[Sequence[Row], Sequence[Row]], None]
"""Is given the tests of all models on the data here, and those of the own model elsewhere."""


class CrossTester:
    """Takes a client's steps in the cross-site validation of a run.

    Args:
        agrees: Whether the client takes part; it may change its mind.
        clients: Gives the number of clients in the run.
        classes: Gives the number of classes that are known.
        own: Gives the client's own model.
        told: Is given the results.
    """

    def __init__(
        self,
        agrees: Callable[[], bool],
        clients: Callable[[], int],
        classes: Callable[[], int],
        own: Callable[[Client], Tensors],
        told: Told,
    ) -> None:
        self._agrees, self._clients, self._classes = agrees, clients, classes
        self._own, self._told = own, told
        self._tested: dict[int, Row] = {}  # by the number of the client whose model it is

    def answer(self, request: Request, client: Client) -> State:
        """Takes the step that the server asks for.

        Args:
            request: The server's request; its model is the one to test.
            client: The client, which has finished.

        Raises:
            OfclError: If the step is refused; the error says why.
        """
        # What an update was not to show, its own model is not to show either.
        if not self._agrees() or client.sender.keeps_back:
            return {"agrees": False}
        if not client.finished:
            raise OfclError("the server asks for cross-site validation before the data have ended")
        try:
            match request.cross.get("step"):
                case "ask":
                    # What a method adds to its model, none but the server was to see.
                    return {"agrees": True, "model": network_alone(self._own(client))}
                case "test":
                    return {"agrees": True, **self._test(request, client)}
                case "results":
                    self._take_results(request.cross.get("elsewhere"))
                case other:
                    raise Rejected(f"there is no step {str(other)[:40]!r}")
        except Rejected as error:
            raise OfclError(f"a step of cross-site validation was refused: {error}") from None
        return {"agrees": True}

    def _test(self, request: Request, client: Client) -> State:
        """Tests a model that has come, unless it was tested before."""
        number: Any = request.cross.get("model")
        most = min(self._clients(), MOST_MODELS) - 1
        check_count("number of a party", number, most, least=GLOBAL_MODEL)
        name = "" if number == GLOBAL_MODEL else request.cross.get("name")
        if number != GLOBAL_MODEL:
            check_label(name, "a party")
        if number not in self._tested:
            ours = network_alone(travelling(client.model, statistics=True))
            check_tensors(request.model, ours, self._classes())
            device = next(client.model.parameters()).device
            with client.holding(all_to_device(request.model, device)):
                predictions = client.test({})
            right = sum(int((classes == predicted).sum()) for classes, predicted in predictions)
            samples = sum(len(of_task.classes) for of_task in predictions)
            self._tested[number] = Row(str(name), right, samples)
        row = self._tested[number]
        return {"model": number, "right": row.right, "samples": row.samples}

    def _take_results(self, elsewhere: Any) -> None:
        """Checks the counts of the own model on the data of others, and hands all counts on."""
        if not isinstance(elsewhere, list) or len(elsewhere) >= self._clients():
            raise Rejected("its counts of your model elsewhere cannot be read")
        rows = []
        for row in elsewhere:
            if not isinstance(row, list) or len(row) != len(Row._fields):
                raise Rejected("its counts of your model elsewhere cannot be read")
            name, right, samples = row
            check_label(name, "a party")
            check_count("number of test samples", samples, MOST_TESTED)
            check_count("number of right predictions", right, samples)
            rows.append(Row(name, right, samples))
        self._told([self._tested[number] for number in sorted(self._tested)], rows)

    def state(self) -> State:
        """Gives the tests so far as plain values, for the client's checkpoint."""
        return {str(number): list(row) for number, row in self._tested.items()}

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: The state; empty: nothing was tested.
        """
        self._tested = {int(number): Row(*row) for number, row in state.items()}
