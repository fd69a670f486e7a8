"""Algorithm 1: online federated continual learning. Start reading here.

Every client learns from its own stream, mini-batch by mini-batch, and replays what it remembers.
Every q mini-batches, after a burn-in in each task, it reaches a communication point. When all
clients have, the server averages the models of those that take part. These clients go on from the
average, the others from their own models. When all have ended a task, there may be one more round
for all of them, the closing round (`end_task`).

A client is in `client.py`; it learns a mini-batch in `methods/replay.py`. When it communicates and
how its model leaves it is in `communication/`, how the server averages in `server.py` and
`aggregation.py`, where the clients run in `engines/`. A run is a loop that the caller sees:

    for event in federate(engine, server):
        ...  # print it, save it, draw it, stop whenever you like

`buffered.py` has a second loop, in which nobody waits for a slow client.

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
    """Where the clients run: in this process, on a cluster, at other organisations.

    Attributes:
        clients: The number of clients; they are numbered from 0.
    """

    clients: int

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets every client learn up to its next communication point, or to its stream's end.

        Args:
            global_model: The global model, with which clients are tested at the end of a task.

        Yields:
            The events of the clients, as they happen.
        """

    def waiting(self) -> list[int]:
        """Lists the numbers of the clients that have reached a communication point."""

    def between_tasks(self) -> list[int]:
        """Lists the numbers of the clients that have ended a task and wait for all the others."""

    def updates(self, clients: Sequence[int]) -> list[Update]:
        """Gives the updates of some clients, in their order.

        Args:
            clients: The numbers of the clients.
        """

    def survey(self, global_model: Tensors, clients: Sequence[int]) -> list[Update]:
        """Asks clients that are `between_tasks` for the features of their memories.

        Args:
            global_model: The global model, which computes the features.
            clients: The numbers of the clients.

        Returns:
            The surveys of those that have answered (`Client.survey`), in their order.
        """

    def receive(self, global_model: Tensors, clients: Sequence[int]) -> None:
        """Ends the communication point of all clients, which learn on at the next `learn`.

        Args:
            global_model: The global model.
            clients: The numbers of the clients that take the global model. All other clients that
                wait go on with their own models.
        """

    def begin_task(self, global_model: Tensors, clients: Sequence[int], handed: Tensors) -> None:
        """Lets clients that are `between_tasks` go on, with their tests if these are still to come.

        Args:
            global_model: The global model.
            clients: The numbers of the clients that go on.
            handed: The tensors that the server's part of the method hands out for the next task;
                empty if the method has no such part.
        """

    def released(self) -> int:
        """Gives the largest number of updates that any client has sent so far."""

    def close(self) -> None:
        """Ends the processes and connections that the engine has started."""

    def state(self) -> State:
        """Gives the clients' state, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Puts back a state of the clients.

        Args:
            state: The state that `state` gave.
        """


def federate(engine: Engine, server: Server) -> Iterator[Event]:
    """Runs Algorithm 1 until every client's stream has ended.

    Args:
        engine: Where the clients run.
        server: The server with the global model.

    Yields:
        The events of the run, as they happen.
    """
    while True:
        yield from engine.learn(server.model)
        if waiting := engine.waiting():
            present = server.draw(waiting, engine.clients)
            if present:
                yield _round(engine, server, present)
            else:  # too few for a round: everybody goes on alone
                engine.receive(server.model, [])
        elif between := engine.between_tasks():  # all clients wait at the end of a task
            yield end_task(engine, server, between)
        else:  # every client has finished
            return


def _round(engine: Engine, server: Server, present: Sequence[int]) -> Round:
    """Holds a round: clients send updates, the server averages them, the clients take the result.

    Args:
        engine: Where the clients run.
        server: The server with the global model.
        present: The numbers of the clients that take part.
    """
    updates = engine.updates(present)
    engine.receive(server.aggregate(updates), present)
    return Round(
        round=server.round,
        clients=list(present),
        samples=[update.samples for update in updates],
        bytes_sent=sum(update.nbytes for update in updates),
        bytes_received=len(present) * server.size(updates),
    )


def end_task(engine: Engine, server: Server, clients: Sequence[int]) -> Event:
    """Takes one of the two steps at the end of a task, which all clients have reached.

    Step 1 is the closing round, in which all these clients take part; it is left out if they are
    too few. Step 2 asks for the features of the memories if the model predicts by prototypes, hands
    out the tensors that the method needs, and lets the clients go on. Each call takes one step.

    Args:
        engine: Where the clients run.
        server: The server with the global model.
        clients: The numbers of the clients that are between tasks.

    Returns:
        A `Round`, or after the second step a `TaskEnded`.
    """
    if not server.closing:
        event = _round(engine, server, clients) if server.enough(clients) else None
        server.closing = True  # not before: a checkpoint within a secure sum must know that
        if event is not None:
            return event
    surveys = engine.survey(server.model, clients) if server.surveys else []
    server.take_survey(surveys)
    handed = server.end_task()
    engine.begin_task(server.model, clients, handed)
    sent = sum(survey.nbytes for survey in surveys)
    return TaskEnded(server.task, len(clients) * nbytes(handed), sent)
