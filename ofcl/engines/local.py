"""The local engine: all clients in this process, one mini-batch each in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofcl.client import Client
from ofcl.events import Event
from ofcl.state import State, Tensors
from ofcl.update import Update


class LocalEngine:
    """Runs the clients here, plainly; the oracle for every faster or farther engine."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = list(clients)
        self.clients = len(self._clients)

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets every client learn up to its next communication point, or to its stream's end."""
        busy = self._clients
        while busy := [c for c in busy if not c.waiting and not c.finished]:
            for client in busy:
                if client.at_task_end:
                    yield client.end_task(global_model)
                else:
                    yield client.learn()

    def waiting(self) -> list[int]:
        """The clients that have reached a communication point."""
        return [client.number for client in self._clients if client.waiting]

    def updates(self, clients: Sequence[int]) -> list[Update]:
        """What these clients send."""
        return [self._clients[number].update() for number in clients]

    def receive(self, global_model: Tensors, clients: Sequence[int]) -> None:
        """Hands these clients the global model, and lets all that wait go on."""
        for client in self._clients:
            if client.number in clients:
                client.receive(global_model)
            else:
                client.go_on()

    def state(self) -> State:
        """The clients' state, for a checkpoint."""
        return {"clients": [client.state() for client in self._clients]}

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        for client, saved in zip(self._clients, state["clients"], strict=True):
            client.load_state(saved)
