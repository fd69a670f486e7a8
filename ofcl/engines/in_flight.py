"""Requests that clients elsewhere are working on, each at its own pace (`ofcl.buffered`).

A request is made once, saved with the server's checkpoint before it is sent, and sent again until
its client has answered: a server that was killed asks the very same again, and a client that has
answered already repeats its answer. Nobody waits for the client of another request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ofcl.engines.channel import ArrivalChannel
from ofcl.engines.coded_models import CodedModels
from ofcl.engines.intake import Intake
from ofcl.engines.messages import Reply, Request
from ofcl.engines.standing import Standing
from ofcl.state import State, Tensors


class InFlight:
    """Keeps one request for every client that learns, and takes in answers as they come.

    Args:
        channel: Carries the requests.
        standing: Where each client stands; makes the requests.
        intake: Reads the answers.
        coded: Lets models travel in fewer bytes; None: they travel as they are.
        handed: Is told the number of each client that is to take the global model.

    Attributes:
        arrived: Clients that have reached a communication point, in the order of their answers.
        unsaved: Whether there is a request that no checkpoint has yet.
    """

    def __init__(
        self,
        channel: ArrivalChannel,
        standing: Standing,
        intake: Intake,
        coded: CodedModels | None,
        handed: Callable[[int], None],
    ) -> None:
        self._channel, self._standing, self._intake = channel, standing, intake
        self._coded, self._handed = coded, handed
        self._requests: dict[int, Request] = {}
        self._travelling: dict[int, Request] = {}  # the same, as they are sent
        self.arrived: list[int] = []
        self.unsaved = False

    def depart(self, clients: Collection[int], model: Tensors) -> None:
        """Makes requests to those clients that have none; forgets those to all others.

        Args:
            clients: The numbers of the clients that are to learn.
            model: The global model.
        """
        for gone in self._requests.keys() - set(clients):
            self._drop(gone)
        for client in clients:
            if client in self._requests:
                continue
            # A copy: the server may change its own in place (`Server.go_back`).
            request = self._standing.request(client, dict(model))
            self._standing.exchange += 1
            if "take" in request.steps:
                self._handed(client)
            self._requests[client] = self._travelling[client] = request
            if self._coded is not None:
                self._travelling[client] = self._coded.shortened(client, request)
            self.unsaved = True

    def land(self, *, wait: bool) -> list[Reply]:
        """Sends requests that are not on their way, and reads the answers that have come.

        Args:
            wait: Whether to wait until there is an answer.

        Returns:
            The replies. A client whose answer is rejected is to take the newest model and go on.
        """
        replies = []
        for client, answer in self._channel.arrivals(self._travelling, wait=wait).items():
            request = self._requests[client]
            reply = self._intake.read(answer, request, client)
            if reply is None:
                self._take_anew(client)
                continue
            if reply.status != "asking":  # else it is asked for the same again
                self._drop(client)
                if self._coded is not None:
                    self._coded.note(reply, request)
            if reply.status == "waiting":
                self.arrived.append(client)
            replies.append(reply)
        return replies

    def recall(self) -> None:
        """Lets all clients take the newest model: the one that they work with is spoilt."""
        for client in list(self._requests):
            self._take_anew(client)

    def change(self, clients: Collection[int], changed: State) -> None:
        """Puts changed settings into requests that clients could not follow.

        The requests stay the same else: a client that has answered meanwhile repeats its answer.

        Args:
            clients: The numbers of the clients.
            changed: The settings that have changed since the run began, with their values now.
        """
        for client in self._requests.keys() & set(clients):
            self._requests[client] = replace(self._requests[client], changed=changed)
            self._travelling[client] = replace(self._travelling[client], changed=changed)
            self.unsaved = True

    def _take_anew(self, client: int) -> None:
        """Makes the next request to a client another one: it takes the newest model."""
        self._drop(client)
        self._standing.missed(client)
        if self._coded is not None:
            self._coded.missed(client)

    def _drop(self, client: int) -> None:
        """Forgets the request to a client."""
        del self._requests[client], self._travelling[client]

    def state(self) -> State:
        """Gives the requests for a checkpoint, and each set of tensors once."""
        self.unsaved = False
        tensors: list[Tensors] = []
        requests = [
            {
                **{name: getattr(request, name) for name in ("exchange", "task", "seen")},
                "client": client,
                "steps": list(request.steps),
                "model": _place(request.model, tensors),
                "handed": _place(request.handed, tensors),
                "changed": request.changed,
            }
            for client, request in self._requests.items()
        ]
        return {"requests": requests, "tensors": tensors, "arrived": list(self.arrived)}

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave; models then travel whole.

        Args:
            state: The state; empty: nobody has been asked for anything.
        """
        tensors: Sequence[Tensors] = state.get("tensors", [])
        self._requests = {}
        for saved in state.get("requests", []):
            fields = {name: saved[name] for name in ("exchange", "task", "seen")}
            request = Request(
                self._standing.run, **fields, steps=tuple(saved["steps"]),
                model=tensors[saved["model"]], handed=tensors[saved["handed"]],
                changed=saved.get("changed", {}),
            )  # fmt: skip
            self._requests[int(saved["client"])] = request
        self._travelling = {client: replace(r) for client, r in self._requests.items()}
        self.arrived, self.unsaved = list(state.get("arrived", [])), False


def _place(wanted: Tensors, tensors: list[Tensors]) -> int:
    """Finds the place of the very same tensors among those that are saved, or gives them one."""
    for number, known in enumerate(tensors):
        if known.keys() == wanted.keys() and all(known[name] is wanted[name] for name in known):
            return number
    tensors.append(wanted)
    return len(tensors) - 1
