"""The local engine: all clients in this process, one mini-batch each in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ofcl.client import Client, Outcome, Outcomes
from ofcl.compute.devices import Lanes
from ofcl.events import Event, from_json, to_json
from ofcl.methods.stacked import MOST, Stack, stackable
from ofcl.state import State, Tensors
from ofcl.update import Update

LOOK_AGAIN = 0.1  # seconds between two looks at streams that have nothing to learn
BATCHES_AHEAD = 16  # mini-batches of each client, on the average, that a GPU gets queued at once


@dataclass(frozen=True)
class Group:
    """Clients that have their turn together: those that can be stacked; any other is alone."""

    clients: list[Client]
    stack: Stack | None = None


def grouped(clients: Sequence[Client]) -> list[Group]:
    """Groups of clients that follow each other."""
    if not all(stackable(client.learner) for client in clients):
        return [Group([client]) for client in clients]
    starts = range(0, len(clients), MOST)
    return [Group(list(clients[start : start + MOST]), Stack()) for start in starts]


def learn_together(clients: Sequence[Client], stack: Stack) -> list[Outcome]:
    """Lets clients that can be stacked learn their next mini-batch."""
    batches, currents = zip(*(client.take() for client in clients), strict=True)
    learners = [client.learner for client in clients if stackable(client.learner)]
    measurements = stack.learn(learners, batches, currents)
    told = zip(clients, batches, measurements, strict=True)
    return [client.outcome(batch, measurement) for client, batch, measurement in told]


class LocalEngine:
    """Runs the clients here; the oracle for every farther engine.

    On a GPU their work is queued, each client's in a lane of its own, and what they have learned is
    told up to one communication point later, so that the GPU never waits for anybody. On a CPU,
    clients with small models take their steps together.

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
        self.groups = grouped(self._clients)
        self._outcomes: list[Outcome] = []  # learned, or queued to be
        self._coming: list[Outcomes] = []  # sent for
        self._untold: list[Event] = []
        numbers = [client.number for client in self._clients]
        self._lanes = Lanes(next(self._clients[0].model.parameters()).device, numbers)

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets every client learn up to its next communication point, or to its stream's end."""
        yield from self._tell()
        since = time.monotonic()
        while busy := self._busy(global_model):
            acted = False
            for group in self.groups:
                # Those with a smaller number have had their turn before a checkpoint.
                members = [c for c in group.clients if c.number in busy and c.number >= self._turn]
                if not members:
                    continue
                self._turn = members[-1].number + 1
                if ready := [client for client in members if self._ready(client)]:
                    self._act(group, ready, global_model)
                    acted, since = True, time.monotonic()
                yield from self._tell()
            self._turn = 0
            if time.monotonic() - since >= self._patience and self.waiting():
                break
            if not acted:
                self._read()
                yield from self._tell()
                self._pause(LOOK_AGAIN)
        self._send()
        if not self.waiting():
            self._read()
        yield from self._tell()

    def drain(self) -> Iterator[Event]:
        """Waits for all that is queued, and tells it: nobody will ask this engine again."""
        self._read()
        yield from self._tell()

    def _act(self, group: Group, clients: Sequence[Client], global_model: Tensors) -> None:
        """Lets clients learn a mini-batch, or evaluate at the end of a task."""
        ending = [client for client in clients if client.at_task_end]
        learning = [client for client in clients if client not in ending]
        for client in ending:
            self._read()  # of one client, events are told in their order
            held = client.remembered(now=True)
            with self._lanes.of(client.number):
                event = client.end_task(global_model)
            self._notice(client)
            self._untold += [event, *held]
        if len(learning) > 1 and group.stack is not None:
            outcomes = learn_together(learning, group.stack)
            for client in learning:
                self._notice(client)
            self._outcomes += outcomes
        else:
            for client in learning:
                with self._lanes.of(client.number):
                    outcome = client.learn()
                self._notice(client)
                self._outcomes.append(outcome)
        if not self._lanes.overlap:
            self._read()
        elif len(self._outcomes) >= BATCHES_AHEAD * self.clients:
            self._send()

    def _ready(self, client: Client) -> bool:
        """Whether a client has something to do; looking may bring something to tell."""
        ready = client.stream.ready()
        self._notice(client)
        return ready

    def _notice(self, client: Client) -> None:
        """Tells what a stream has to tell, before the mini-batch that it came with."""
        if notices := client.stream.notices():
            self._read()
            self._untold += notices

    def _send(self) -> None:
        """Sends for the results of the outcomes that are queued; those sent for before are told."""
        self._lanes.join()
        before = self._coming
        self._coming = [Outcomes(self._outcomes)] if self._outcomes else []
        self._outcomes = []
        for outcomes in before:
            self._untold += outcomes.told()

    def _read(self) -> None:
        """Waits for all outcomes that are queued, so that they can be told."""
        self._send()
        self._send()

    def _tell(self) -> Iterator[Event]:
        """Events, each taken off the list first: what a checkpoint finds there is not told yet."""
        while self._untold:
            yield self._untold.pop(0)

    def _busy(self, global_model: Tensors) -> set[int]:
        """The clients that learn, after those whose turn has come have started."""
        asleep = self._starts
        others = [client for client in self._clients if client.number not in asleep]
        if asleep and all(client.finished for client in others):
            due = [min(asleep, key=lambda number: asleep[number])]  # nobody is there to wait for
        else:
            due = [number for number in asleep if asleep[number] <= self._clients[0].learned]
        if due:
            self._lanes.join()
        for number in due:
            del asleep[number]
            self._clients[number].receive(global_model)
        awake = (client for client in self._clients if client.number not in asleep)
        return {c.number for c in awake if not (c.waiting or c.finished or c.between_tasks)}

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
            self._untold += client.remembered()

    def begin_task(self, global_model: Tensors, clients: Sequence[int], handed: Tensors) -> None:
        """Hands these clients what a method needs for the next task, and lets them begin it."""
        for number in clients:
            self._clients[number].begin_task(global_model, handed)

    def released(self) -> int:
        """The most updates that have left one client."""
        return max(client.released for client in self._clients)

    def close(self) -> None:
        """Nothing is left to end."""

    def state(self) -> State:
        """The clients' state, for a checkpoint."""
        self._read()
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
