"""Algorithm 1: online federated continual learning. Start reading here.

Every client learns from its own stream, mini-batch by mini-batch, and replays what it remembers.
Every q mini-batches, after a burn-in in each task, it reaches a communication point. When all
clients have, the server averages the models of those that take part, and they go on from there.

A client learns a mini-batch in `methods/replay.py`. When it communicates and what it sends is in
`client.py`, how the server averages in `server.py` and `aggregation.py`, where the clients run in
`engines/`. A run is a loop that the caller sees:

    for event in federate(engine, server):
        ...  # print it, save it, draw it, stop whenever you like

All state is in the clients and the server, none in the loop: after any event it can be saved, and a
loop over the restored state goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ofcl.events import Event, Round, TaskEnded
from ofcl.server import Server
from ofcl.state import State, Tensors, nbytes
from ofcl.update import Update


class Engine(Protocol):
    """Where the clients run: in this process, on a cluster, at other organisations."""

    clients: int

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets every client learn up to its next communication point, or to its stream's end."""

    def waiting(self) -> list[int]:
        """Lists the clients that have reached a communication point."""

    def between_tasks(self) -> list[int]:
        """Lists the clients that have ended a task and wait until the others have."""

    def updates(self, clients: Sequence[int]) -> list[Update]:
        """Gives the updates of these clients."""

    def receive(self, global_model: Tensors, clients: Sequence[int]) -> None:
        """Hands these clients the global model, and lets all that wait go on."""

    def begin_task(self, global_model: Tensors, clients: Sequence[int], handed: Tensors) -> None:
        """Lets these clients go on: with their tests, where these come later, and the next task.

        Args:
            global_model: The global model.
            clients: Their numbers.
            handed: What the server's part of the method hands out for the task; often nothing.
        """

    def released(self) -> int:
        """Counts the updates that have left the client of which most have."""

    def close(self) -> None:
        """Ends what the engine has started: the run is over, or is left."""

    def state(self) -> State:
        """Gives the clients' state, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave."""


def federate(engine: Engine, server: Server) -> Iterator[Event]:
    """Runs until every client's stream has ended, and yields what happens.

    Args:
        engine: Where the clients run.
        server: The server with the global model.
    """
    while True:
        yield from engine.learn(server.model)
        if waiting := engine.waiting():
            present = server.draw(waiting, engine.clients)
            if present:
                yield _round(engine, server, present)
            else:  # too few for a round: everybody goes on alone
                engine.receive(server.model, [])
        elif between := engine.between_tasks():  # a task, or every stream, has ended for all
            yield _end_task(engine, server, between)
        else:  # every stream has ended
            return


def _round(engine: Engine, server: Server, present: Sequence[int]) -> Round:
    """Holds a round: the clients present send, the server averages, they take the result."""
    updates = engine.updates(present)
    engine.receive(server.aggregate(updates), present)
    return Round(
        round=server.round,
        clients=list(present),
        samples=[update.samples for update in updates],
        bytes_sent=sum(update.nbytes for update in updates),
        bytes_received=len(updates) * nbytes(updates[0].state),
    )


def _end_task(engine: Engine, server: Server, clients: Sequence[int]) -> Event:
    """Ends a task: first its closing round, then the method hands out what the next needs."""
    if not server.closing:
        server.closing = True
        if server.enough(clients):
            return _round(engine, server, clients)
    handed = server.end_task()
    engine.begin_task(server.model, clients, handed)
    return TaskEnded(server.task, len(clients) * nbytes(handed))
