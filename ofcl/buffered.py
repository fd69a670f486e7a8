"""Rounds in which nobody waits: Algorithm 1 with a buffer, after FedBuff (Nguyen et al. 2022).

A client that reaches a communication point sends its update, gets the newest global model and
learns on at once. Whenever enough updates have come, the server averages them (`late_updates`). So
a slow client holds up nobody, and one that was away for long does little harm when it is back.

The order in which updates arrive is all that is not determined by the settings. Every `Arrived`
records it, so that a run between parties can be computed again on one machine (`arrivals_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from ofcl.algorithm import Engine, end_task, federate
from ofcl.errors import OfclError
from ofcl.events import Arrived, Event, Round
from ofcl.safeguards.late_updates import LateUpdates
from ofcl.server import Server
from ofcl.state import Tensors


@runtime_checkable
class BufferedEngine(Engine, Protocol):
    """An engine whose clients can be answered one by one.

    `learn` returns as soon as a client has arrived at a communication point.
    """

    def next_arrival(self) -> int | None:
        """Gives the number of the client that has arrived first, of those that wait; None: none."""

    def answer(self, global_model: Tensors, client: int) -> None:
        """Lets one client take the global model and learn on.

        Args:
            global_model: The global model.
            client: The number of the client.
        """


def federate_buffered(engine: BufferedEngine, server: Server, late: LateUpdates) -> Iterator[Event]:
    """Runs Algorithm 1 with a buffer until every client's stream has ended.

    Args:
        engine: Where the clients run.
        server: The server with the global model.
        late: The buffer; it is part of the server's state.

    Yields:
        The events of the run, as they happen.
    """
    while True:
        if late.full:
            yield _round(server, late)
        if late.unanswered is not None:
            engine.answer(server.model, late.unanswered)
            late.hand(server.model, server.round)
        yield from engine.learn(server.model)
        if (client := engine.next_arrival()) is not None:
            (update,) = engine.updates([client])
            late.add(update)
            yield Arrived(client, server.round)
        elif not late.empty:  # every stream has ended
            yield _round(server, late)
        elif between := engine.between_tasks():
            event = end_task(engine, server, between)
            if isinstance(event, Round):  # all of them have taken the new model
                for client in between:
                    late.hand_to(client, server.model, server.round)
            yield event
        else:
            return


def loop_of(engine: Engine, server: Server) -> Iterator[Event]:
    """Runs the loop that a server is made for: with a buffer, or Algorithm 1 as it is.

    Args:
        engine: Where the clients run; with a buffer, an engine that can answer one by one.
        server: The server.
    """
    if server.late is None:
        return federate(engine, server)
    if not isinstance(engine, BufferedEngine):
        raise OfclError("rounds = 'buffered' needs an engine whose clients are answered one by one")
    return federate_buffered(engine, server, server.late)


def _round(server: Server, late: LateUpdates) -> Round:
    """Averages the updates that have come."""
    updates, ages = late.take(server.model, server.round)
    server.aggregate(updates)
    return Round(
        round=server.round,
        clients=[update.client for update in updates],
        samples=[update.samples for update in updates],
        bytes_sent=sum(update.nbytes for update in updates),
        bytes_received=len(updates) * server.size(updates),
        ages=ages,
    )


def arrivals_of(events: Iterable[Event]) -> list[int]:
    """Lists the clients in the order in which their updates arrived, from a run's events.

    Args:
        events: The events of the run.
    """
    return [event.client for event in events if isinstance(event, Arrived)]
