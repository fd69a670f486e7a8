"""The messages between the server and clients that run in other processes.

One exchange is one stretch of learning: the server sends its model and the steps to take with it;
the client learns up to its next communication point and answers. A message is tensors and plain
values. Every exchange of a run has a number, so that a message that comes late or twice is
recognised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ofcl.compression.steps import Form
from ofcl.events import Event, from_json, to_json
from ofcl.state import Flat, State, Tensors, flatten
from ofcl.update import Update

Step = Literal["take", "go-on", "survey", "begin-task", "sum", "cross-test"]
"""A step that a client takes before it learns:

take:        take the global model, or the share of it that the setting `mixing` asks for.
go-on:       go on with its own model.
survey:      answer with the features of its memory (`Client.survey`); nothing is learned.
begin-task:  begin the next task, with the tensors that the server hands out for it.
sum:         take a step of a secure sum (`ofcl.secure_sum`); nothing is learned.
cross-test:  take a step of cross-site validation (`cross_tester`); nothing is learned.
"""

BY_THEMSELVES: frozenset[Step] = frozenset(("sum", "cross-test"))
"""Steps that come alone: with them, a client neither takes the request's model nor learns."""

Status = Literal["waiting", "between-tasks", "finished", "learning", "asking", "lost"]
"""Where a client is when it answers:

waiting:        at a communication point; an update comes with the answer.
between-tasks:  at the end of a task; an update comes with the answer.
finished:       at the end of its stream.
learning:       its stream has nothing more for now; it goes on with the next request.
asking:         it has not done what was asked; it will when its labels have places.
lost:           it has not done what was asked: its state is older than the server knows.
"""


@dataclass(frozen=True)
class Request:
    """A message of the server to a client.

    Args:
        run: The name of the run.
        exchange: The number of the exchange, from 1.
        steps: The steps to take before learning, in order.
        model: The global model.
        handed: For the step `begin-task`: the tensors that the method's server hands out.
        task: For the step `begin-task`: how many times clients have been told to begin a task, this
            time included. A client that has begun so many skips the step.
        seen: The exchange of this client's last answer that has arrived at the server. The client
            sends the events of later exchanges again.
        sum: For the step `sum`: what the step needs.
        alone: Whether all others have finished, so that no round will follow.
        form: How the model travels (`compression.steps.Form`).
        changed: Settings that have changed since the run began, with their values now.
        cross: For the step `cross-test`: what the step needs.
    """

    run: str
    exchange: int
    steps: tuple[Step, ...]
    model: Tensors
    handed: Tensors = field(default_factory=dict)
    task: int = 0
    seen: int = 0
    sum: State = field(default_factory=dict)
    alone: bool = False
    form: Form = "whole"
    changed: State = field(default_factory=dict)
    cross: State = field(default_factory=dict)

    @property
    def by_itself(self) -> bool:
        """Whether its step comes alone (`BY_THEMSELVES`)."""
        return not BY_THEMSELVES.isdisjoint(self.steps)


@dataclass(frozen=True)
class Reply:
    """A client's answer to a request.

    Args:
        run: The name of the request's run.
        exchange: The number of the request's exchange.
        client: The number of the client.
        status: Where the client is, or what it waits for (`Status`).
        learned: Mini-batches that the client has learned so far.
        released: Updates that have left the client so far.
        events: The events of all exchanges after the one that the request calls `seen`.
        update: The client's update, at a communication point or at the end of a task; its survey if
            the request asks for one; else None.
        labels: Labels that the client has met and that have no place (class) yet.
        sum: The answer to the step `sum`; empty for any other request.
        data: A fingerprint of the client's data, made with the run's name; "": it tells none.
        cross: The answer to the step `cross-test`; empty for any other request.
    """

    run: str
    exchange: int
    client: int
    status: Status
    learned: int
    released: int
    events: list[Event]
    update: Update | None
    labels: list[str] = field(default_factory=list)
    sum: State = field(default_factory=dict)
    data: str = ""
    cross: State = field(default_factory=dict)


def pack_request(request: Request) -> State:
    """Converts a request to a state: tensors and plain values.

    Args:
        request: The request.
    """
    packed = {**vars(request), "steps": list(request.steps)}
    if not request.alone:  # parties of earlier versions do not know it
        del packed["alone"]
    if request.form == "whole":
        del packed["form"]
    if not request.changed:
        del packed["changed"]
    return _without_empty(packed)


def unpack_request(state: State) -> Request:
    """Reads a request that `pack_request` has packed.

    Args:
        state: The packed request.
    """
    return Request(**{**state, "steps": tuple(state["steps"])})


def pack_reply(reply: Reply) -> Flat:
    """Converts a reply to a flat state.

    An update is flattened only here: the checkpoint, the audit file and the message use the result.

    Args:
        reply: The reply.
    """
    update = pack_update(reply.update) if reply.update is not None else None
    if update is not None and reply.update is not None and reply.update.coded:
        update["state"] = {}  # the server makes it from the coded one
    events = [to_json(event) for event in reply.events]
    return flatten(_without_empty({**vars(reply), "events": events, "update": update}))


def _without_empty(packed: State) -> State:
    """Leaves out the fields of steps that come alone where a message has nothing in them."""
    return {k: v for k, v in packed.items() if v or k not in ("sum", "cross")}


def unpack_reply(state: State) -> Reply:
    """Reads a reply that `pack_reply` has packed.

    Args:
        state: The packed reply, after it has been unflattened.
    """
    update = unpack_update(state["update"]) if state["update"] is not None else None
    events = [from_json(event) for event in state["events"]]
    return Reply(**{**state, "events": events, "update": update, "labels": state["labels"],
                    "data": state["data"]})  # fmt: skip


def pack_update(update: Update) -> State:
    """Converts an update to a state: tensors and plain values.

    Args:
        update: The update.
    """
    unsent = {"sent"} if update.coded else {"sent", "coded"}
    fields = {name: value for name, value in vars(update).items() if name not in unsent}
    return {**fields, "classes": [list(item) for item in sorted(update.classes.items())]}


def unpack_update(state: State) -> Update:
    """Reads an update that `pack_update` has packed.

    Args:
        state: The packed update.
    """
    return Update(**{**state, "classes": dict(state["classes"]), "sent": 0})
