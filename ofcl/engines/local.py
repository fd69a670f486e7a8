"""The local engine: all clients in this process, one mini-batch each in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ofcl.client import Client, Outcome
from ofcl.compute.devices import Lanes
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.sample import StreamError
from ofcl.engines.outcomes import Outcomes
from ofcl.errors import OfclError
from ofcl.events import Event, from_json, to_json
from ofcl.methods.stacked import MOST, Stack, stackable
from ofcl.state import State, Tensors
from ofcl.update import Update

LOOK_AGAIN = 0.1  # seconds between two looks at streams that have no samples now
BATCHES_AHEAD = 16  # mini-batches of each client, on average, that are queued on a GPU


@dataclass(frozen=True)
class Group:
    """Clients that learn in one turn.

    Args:
        clients: A single client, or up to `MOST` clients whose networks can be stacked.
        stack: Learns for stacked clients together; None for a single client.
    """

    clients: list[Client]
    stack: Stack | None = None


def grouped(clients: Sequence[Client]) -> list[Group]:
    """Puts clients with consecutive numbers into groups, each of which learns in one turn.

    If the networks of all clients can be stacked, a group has up to `MOST` clients; else every
    client is a group of its own.

    Args:
        clients: The clients, in the order of their numbers.
    """
    if not all(stackable(client.learner) for client in clients):
        return [Group([client]) for client in clients]
    starts = range(0, len(clients), MOST)
    return [Group(list(clients[start : start + MOST]), Stack()) for start in starts]


def learn_together(clients: Sequence[Client], stack: Stack) -> list[Outcome]:
    """Lets stacked clients learn their next mini-batch together.

    Args:
        clients: Clients of one group.
        stack: The stack of the group.

    Returns:
        The outcome of each client's mini-batch, in the order of the clients.
    """
    batches, currents = zip(*(client.take() for client in clients), strict=True)
    learners = [client.learner for client in clients if stackable(client.learner)]
    measurements = stack.learn(learners, batches, currents)
    return [
        client.outcome(batch, measurement)
        for client, batch, measurement in zip(clients, batches, measurements, strict=True)
    ]


class LocalEngine:
    """Runs all clients in this process; tests compare the other engines with it.

    On a GPU the clients' work is queued, each client's in a lane of its own. So that the GPU never
    waits, the events of a mini-batch are yielded later, by one communication point at most. On a
    CPU, clients with small models take their gradient steps together.

    Args:
        clients: The clients, in the order of their numbers.
        starts: Client k starts when the first client has learned `starts[k]` mini-batches, from the
            global model of that moment; default: all start at once.
        patience: Seconds that clients at a communication point wait for a client whose live stream
            has no samples.
        pause: Waits for some seconds while no stream has samples; it may raise to end the run.
        events: Events that are yielded before those of the clients.
        speeds: Buffered rounds: how long a mini-batch takes each client; default: all alike.
        arrivals: Buffered rounds: the order in which clients arrive, as another run has recorded
            it; default, and when it is used up: by their speeds.
        apart: Whether every client takes its gradient steps by itself, as clients in processes of
            their own do: the results are theirs, bit for bit.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        *,
        starts: Sequence[int] = (),
        patience: float = 60.0,
        pause: Callable[[float], None] = time.sleep,
        events: Sequence[Event] = (),
        speeds: Sequence[float] = (),
        arrivals: Sequence[int] = (),
        apart: bool = False,
    ) -> None:
        self._clients = list(clients)
        self._speeds = list(speeds) or [1.0] * len(self._clients)
        self._arrivals, self._apart = list(arrivals), apart
        self.clients = len(self._clients)
        self._starts = {number: start for number, start in enumerate(starts) if start > 0}
        self._patience, self._pause = patience, pause
        self._turn = 0  # the client that is next
        self.groups = grouped(self._clients)
        self._outcomes: list[Outcome] = []  # of mini-batches that are learned or queued
        self._transfers: list[Outcomes] = []  # on their way from the device
        self._events: list[Event] = list(events)
        numbers = [client.number for client in self._clients]
        self._lanes = Lanes(next(self._clients[0].model.parameters()).device, numbers)

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets every client learn up to its next communication point, or to its stream's end.

        Args:
            global_model: The global model; clients test it at the end of a task, and clients that
                start later start from it.

        Yields:
            The events of the clients, as they happen.
        """
        yield from self._yield_events()
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
                yield from self._yield_events()
            self._turn = 0
            if time.monotonic() - since >= self._patience and self.waiting():
                break
            if not acted:
                self._collect()
                yield from self._yield_events()
                if damage := self._damage_of_all(busy):
                    if not self.waiting():
                        raise damage
                    break  # a round does not wait for data to be mended
                self._pause(LOOK_AGAIN)
        self._fetch()
        if not self.waiting():
            self._collect()
        yield from self._yield_events()

    def _damage_of_all(self, busy: set[int]) -> StreamError | None:
        """Returns the first damage if all of these clients wait for their streams to be mended.

        Args:
            busy: The numbers of the clients that have something to learn, or would have.
        """
        streams = [client.stream for client in self._clients if client.number in busy]
        damages = [stream.damage if isinstance(stream, LiveStream) else None for stream in streams]
        return None if None in damages else damages[0]

    def drain(self) -> Iterator[Event]:
        """Waits for all queued work and yields its events; called after the last `learn`."""
        self._collect()
        yield from self._yield_events()

    def _act(self, group: Group, clients: Sequence[Client], global_model: Tensors) -> None:
        """Lets each client learn one mini-batch or, at the end of its task, evaluate.

        Args:
            group: The group of the clients.
            clients: The clients of the group whose streams are ready.
            global_model: The global model; clients test it at the end of a task.
        """
        ending = [client for client in clients if client.at_task_end]
        learning = [client for client in clients if client not in ending]
        for client in ending:
            self._collect()  # the events of one client stay in their order
            composition = client.remembered(now=True)
            with self._lanes.of(client.number):
                event = client.end_task(global_model)
            self._notice(client)
            self._events += [event, *composition] if event is not None else []
        if len(learning) > 1 and group.stack is not None and not self._apart:
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
            self._collect()
        elif len(self._outcomes) >= BATCHES_AHEAD * self.clients:
            self._fetch()

    def _ready(self, client: Client) -> bool:
        """Tells whether a client's stream has a mini-batch or has ended.

        The notices that the stream has for the user, of new classes and samples left out, become
        events.
        """
        ready = client.stream.ready()
        self._notice(client)
        return ready

    def _notice(self, client: Client) -> None:
        """Makes events of the notices of a client's stream: new classes, samples that are left out.

        The events of earlier mini-batches are put before them, so that events stay in their order.
        """
        if notices := client.stream.notices():
            self._collect()
            self._events += notices

    def _fetch(self) -> None:
        """Starts to transfer queued outcomes from the device.

        The outcomes whose transfer the previous call has started become events.
        """
        self._lanes.join()
        before = self._transfers
        self._transfers = [Outcomes(self._outcomes)] if self._outcomes else []
        self._outcomes = []
        for outcomes in before:
            self._events += outcomes.events()

    def _collect(self) -> None:
        """Waits until all queued outcomes have become events."""
        self._fetch()
        self._fetch()

    def _yield_events(self) -> Iterator[Event]:
        """Yields events, each taken off the list first: a checkpoint saves those that are left."""
        while self._events:
            yield self._events.pop(0)

    def _busy(self, global_model: Tensors) -> set[int]:
        """Starts the clients that are due to start; gives the numbers of all that can learn now.

        Args:
            global_model: The global model, which clients that start take.
        """
        asleep = self._starts
        others = [client for client in self._clients if client.number not in asleep]
        if asleep and all(client.finished for client in others):
            due = [min(asleep, key=lambda number: asleep[number])]  # no other client learns
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
        """Lists the numbers of the clients that have reached a communication point."""
        return [client.number for client in self._clients if client.waiting]

    def between_tasks(self) -> list[int]:
        """Lists the numbers of the clients that have ended a task and wait for all the others."""
        return [client.number for client in self._clients if client.between_tasks]

    def updates(self, clients: Sequence[int]) -> list[Update]:
        """Gives the updates of some clients, in their order.

        Args:
            clients: The numbers of the clients.
        """
        return [self._clients[number].update() for number in clients]

    def survey(self, global_model: Tensors, clients: Sequence[int]) -> list[Update]:
        """Asks clients that are `between_tasks` for the features of their memories.

        Args:
            global_model: The global model, which computes the features.
            clients: The numbers of the clients.
        """
        return [self._clients[number].survey(global_model) for number in clients]

    def receive(self, global_model: Tensors, clients: Sequence[int]) -> None:
        """Ends the communication point of all clients, which learn on at the next `learn`.

        Args:
            global_model: The global model.
            clients: The numbers of the clients that take the global model. All other clients that
                wait go on with their own models.
        """
        for client in self._clients:
            if client.number in clients:
                client.receive(global_model)
            else:
                client.go_on()
            self._events += client.remembered()

    def next_arrival(self) -> int | None:
        """Gives the number of the client that has arrived first, of those that wait; None: none.

        A client that never waits for others arrives after all its mini-batches, each of which takes
        its time.
        """
        waiting = [client for client in self._clients if client.waiting]
        if not waiting:
            return None
        if self._arrivals:
            if not self._clients[self._arrivals[0]].waiting:
                raise OfclError(
                    f"the order of arrivals is of another run: client {self._arrivals[0]} is next, "
                    "and has not come to a communication point; give that run's settings and data"
                )
            return self._arrivals.pop(0)
        return min(waiting, key=lambda c: (c.learned * self._speeds[c.number], c.number)).number

    def answer(self, global_model: Tensors, client: int) -> None:
        """Lets one client take the global model and learn on.

        Args:
            global_model: The global model.
            client: The number of the client.
        """
        self._clients[client].receive(global_model)
        self._events += self._clients[client].remembered()

    def begin_task(self, global_model: Tensors, clients: Sequence[int], handed: Tensors) -> None:
        """Lets clients that are `between_tasks` go on, with their tests if these are still to come.

        Args:
            global_model: The global model.
            clients: The numbers of the clients that go on.
            handed: The tensors that the server's part of the method hands out for the next task;
                empty if the method has no such part.
        """
        for number in clients:
            self._clients[number].begin_task(global_model, handed)

    def released(self) -> int:
        """Gives the largest number of updates that any client has sent so far."""
        return max(client.sender.released for client in self._clients)

    def close(self) -> None:
        """Does nothing: there are no other processes to end."""

    def state(self) -> State:
        """Gives the clients' state and the events that have not been yielded, for a checkpoint."""
        self._collect()
        return {
            "clients": [client.state() for client in self._clients],
            "asleep": sorted(self._starts),
            "turn": self._turn,
            "untold": [to_json(event) for event in self._events],
            "arrivals": list(self._arrivals),
            "apart": self._apart,
        }

    def load_state(self, state: State) -> None:
        """Puts back a state of these clients.

        Args:
            state: The state that `state` gave.
        """
        for client, saved in zip(self._clients, state["clients"], strict=True):
            client.load_state(saved)
        self._starts = {n: start for n, start in self._starts.items() if n in state["asleep"]}
        self._turn = int(state["turn"])
        self._arrivals = list(state.get("arrivals", []))
        self._apart = bool(state.get("apart", False))
        self._events = [from_json(event) for event in state["untold"]]
