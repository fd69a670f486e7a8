"""Where each client of a run stands, and the next request to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ofcl.engines.messages import Reply, Request, Status, Step
from ofcl.state import State, Tensors


class Standing:
    """Keeps the status of every client, the steps that it has still to take, and the exchange.

    Args:
        run: The name of the run, which every request carries.
        clients: The number of clients.

    Attributes:
        exchange: How many exchanges are over.
        status: The status of each client.
        steps: The steps that each client has to take before it learns.
        changed: Settings that have changed since the run began; requests carry their values.
    """

    def __init__(self, run: str, clients: int) -> None:
        self.run, self.exchange = run, 0
        self.status: list[Status] = ["learning"] * clients
        self.steps: list[list[Step]] = [[] for _ in range(clients)]
        self._seen = [0] * clients  # the exchange of each client's last answer
        self._unanswered: dict[int, int] = {}  # the exchange that clients are asked for again
        self.changed: State = {}
        self._handed: Tensors = {}
        self._task = 0  # the task that the clients were last asked to begin

    def at(self, status: Status) -> list[int]:
        """Lists the numbers of the clients with a status.

        Args:
            status: The status.
        """
        return [client for client, now in enumerate(self.status) if now == status]

    @property
    def all_finished(self) -> bool:
        """Whether the streams of all clients have ended."""
        return all(status == "finished" for status in self.status)

    def request(
        self, client: int, model: Tensors, then: Sequence[Step] = (), *, alone: bool = False
    ) -> Request:
        """Makes the next request to a client: a new one, or the one that it has not answered.

        Args:
            client: The number of the client.
            model: The global model.
            then: Further steps, after those that the client has still to take.
            alone: Whether all other clients have finished.
        """
        steps = (*self.steps[client], *then)
        handed = self._handed if "begin-task" in steps else {}
        request = replace(self._made(client, steps, model, handed), alone=alone)
        exchange = self._unanswered.get(client, request.exchange)
        return replace(request, exchange=exchange)

    def final_request(self, client: int, model: Tensors) -> Request:
        """Makes a request without steps: with it a client that has finished learns nothing more.

        Args:
            client: The number of the client.
            model: The final global model.
        """
        return self._made(client, (), model)

    def sum_request(self, client: int, step: State) -> Request:
        """Makes a request for a step of a secure sum.

        Args:
            client: The number of the client.
            step: What the step needs (`ServerSum.requests`).
        """
        return replace(self._made(client, ("sum",), {}), sum=step)

    def cross_request(self, client: int, step: State, model: Tensors) -> Request:
        """Makes a request for a step of cross-site validation.

        Args:
            client: The number of the client.
            step: What the step needs (`CrossTest.requests`).
            model: The model to test; {}: the step tests none.
        """
        return replace(self._made(client, ("cross-test",), model), cross=step)

    def _made(
        self,
        client: int,
        steps: tuple[Step, ...],
        model: Tensors,
        handed: Tensors | None = None,
    ) -> Request:
        """Makes a request of the next exchange."""
        return Request(self.run, self.exchange + 1, steps, model, handed or {}, task=self._task,
                       seen=self._seen[client], changed=dict(self.changed))  # fmt: skip

    def note(self, reply: Reply) -> None:
        """Notes where a client is by its reply.

        Args:
            reply: The reply. A client that is `asking` is asked for the same again.
        """
        if reply.status != "asking":
            self.status[reply.client], self.steps[reply.client] = reply.status, []
            self._seen[reply.client] = reply.exchange
            self._unanswered.pop(reply.client, None)

    def unanswered(self, client: int, exchange: int) -> None:
        """Notes that a client has not answered: it is asked the same again until a round is over.

        If it has followed the request, and its answer was lost, it repeats its answer.

        Args:
            client: The number of the client.
            exchange: The exchange that it was asked for.
        """
        self._unanswered[client] = exchange

    def missed(self, client: int) -> None:
        """Notes that what a client was asked for is over: it goes on from the newest model.

        Args:
            client: The number of the client.
        """
        others = (step for step in self.steps[client] if step not in ("take", "go-on"))
        self.steps[client] = ["take", *others]
        self._unanswered.pop(client, None)

    def moved_on(self) -> None:
        """Notes that the global model is another one, or that the others go on with their own.

        Clients that have not answered by now have missed what they were asked for.
        """
        for client in list(self._unanswered):
            self.missed(client)

    def next_step(self, client: int, step: Step) -> None:
        """Adds a step that a client takes before it learns on.

        Args:
            client: The number of the client.
            step: The step.
        """
        self.steps[client].append(step)

    def begin_task(self, clients: Sequence[int], handed: Tensors) -> None:
        """Lets clients begin the next task with their next requests.

        Args:
            clients: The numbers of the clients.
            handed: The tensors that the method's server hands out for it.
        """
        self._handed, self._task = handed, self._task + 1
        for client in clients:
            self.next_step(client, "begin-task")
            self.status[client] = "learning"

    def leave_out(self, clients: Collection[int]) -> None:
        """Treats clients as finished: they are not asked any more.

        Args:
            clients: The numbers of the clients.
        """
        for client in clients:
            self.status[client], self.steps[client] = "finished", []
            self._unanswered.pop(client, None)

    def readmit(self, clients: Collection[int]) -> None:
        """Lets clients learn again, from the newest global model.

        Args:
            clients: The numbers of the clients.
        """
        for client in clients:
            self.status[client], self.steps[client] = "learning", ["take"]

    def state(self) -> State:
        """Gives all of it as plain values and tensors, for a checkpoint."""
        return {
            "exchange": self.exchange,
            "status": list(self.status),
            "steps": [list(steps) for steps in self.steps],
            "seen": list(self._seen),
            "unanswered": [[client, number] for client, number in self._unanswered.items()],
            "handed": self._handed,
            "task": self._task,
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: A state that has at least these fields.
        """
        self.exchange, self._handed = int(state["exchange"]), state["handed"]
        self.status, self.steps = list(state["status"]), [list(s) for s in state["steps"]]
        self._seen, self._task = list(state["seen"]), int(state["task"])
        self._unanswered = dict(state.get("unanswered", []))
