"""The local engine: all clients in this process, one mini-batch each in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from ofcl.client import Client
from ofcl.events import Event, from_json, to_json
from ofcl.state import State, Tensors
from ofcl.update import Update

LOOK_AGAIN = 0.1  # seconds between two looks at streams that have nothing to learn


class LocalEngine:
    """Runs the clients here, plainly; the oracle for every faster or farther engine.

    Client k starts when the first has learned `starts[k]` mini-batches, from the global model of
    that moment. Where streams are live, clients at a communication point wait at most `patience`
    seconds for one that has nothing to learn.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        *,
        starts: Sequence[int] = (),
        patience: float = 60.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clients = list(clients)
        self.clients = len(self._clients)
        self._starts = {number: start for number, start in enumerate(starts) if start > 0}
        self._patience, self._pause = patience, pause
        self._turn = 0  # the client that is next
        self._untold: list[Event] = []

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets every client learn up to its next communication point, or to its stream's end."""
        yield from self._tell()
        since = time.monotonic()
        while busy := self._busy(global_model):
            acted = False
            for client in busy:
                if client.number < self._turn:  # it has had its turn before a checkpoint
                    continue
                self._turn = client.number + 1
                if client.stream.ready():
                    ends = client.at_task_end
                    event = client.end_task(global_model) if ends else client.learn()
                    self._untold += [*client.stream.notices(), event]
                    acted, since = True, time.monotonic()
                else:
                    self._untold += client.stream.notices()
                yield from self._tell()
            self._turn = 0
            if time.monotonic() - since >= self._patience and self.waiting():
                return
            if not acted:
                self._pause(LOOK_AGAIN)

    def _tell(self) -> Iterator[Event]:
        """Events, each taken off the list first: what a checkpoint finds there is not told yet."""
        while self._untold:
            yield self._untold.pop(0)

    def _busy(self, global_model: Tensors) -> list[Client]:
        """The clients that learn, after those whose turn has come have started."""
        asleep = self._starts
        others = [client for client in self._clients if client.number not in asleep]
        if asleep and all(client.finished for client in others):
            due = [min(asleep, key=lambda number: asleep[number])]  # nobody is there to wait for
        else:
            due = [number for number in asleep if asleep[number] <= self._clients[0].learned]
        for number in due:
            del asleep[number]
            self._clients[number].receive(global_model)
        awake = (client for client in self._clients if client.number not in asleep)
        return [c for c in awake if not (c.waiting or c.finished or c.between_tasks)]

    def waiting(self) -> list[int]:
        """The clients that have reached a communication point."""
        return [client.number for client in self._clients if client.waiting]

    def between_tasks(self) -> list[int]:
        """The clients that have finished a task and wait for the others to have."""
        return [client.number for client in self._clients if client.between_tasks]

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

    def begin_task(self, global_model: Tensors, clients: Sequence[int], handed: Tensors) -> None:
        """Hands these clients what a method needs for the next task, and lets them begin it."""
        for number in clients:
            self._clients[number].begin_task(global_model, handed)

    def state(self) -> State:
        """The clients' state, for a checkpoint."""
        return {
            "clients": [client.state() for client in self._clients],
            "asleep": sorted(self._starts),
            "turn": self._turn,
            "untold": [to_json(event) for event in self._untold],
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        for client, saved in zip(self._clients, state["clients"], strict=True):
            client.load_state(saved)
        self._starts = {n: start for n, start in self._starts.items() if n in state["asleep"]}
        self._turn = int(state["turn"])
        self._untold = [from_json(event) for event in state["untold"]]
