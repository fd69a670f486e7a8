"""What server and clients say to each other when they are not in one process.

One exchange is one stretch of learning: the server sends its model and what is to be done with it,
the client learns up to its next communication point and answers. A message is tensors and plain
values; every exchange of a run has a number, so that one that comes late or twice is recognised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ofcl.events import Event, from_json, to_json
from ofcl.state import State, Tensors
from ofcl.update import Update

Step = Literal["take", "go-on", "begin-task"]
"""What a client does with the global model before it learns: takes it, leaves it, or begins the
next task with what the server hands out."""

Status = Literal["waiting", "between-tasks", "finished", "learning", "asking"]
"""Where a client is when it answers; `learning`: its stream had nothing more, it goes on later;
`asking`: it has done nothing of what was asked, and will when its labels have places."""


@dataclass(frozen=True)
class Request:
    """The server to a client."""

    run: str
    exchange: int
    steps: tuple[Step, ...]
    model: Tensors
    handed: Tensors = field(default_factory=dict)  # for `begin-task`
    task: int = 0  # for `begin-task`: which one
    seen: int = 0  # the exchange of this client's last answer that came


@dataclass(frozen=True)
class Reply:
    """A client to the server."""

    run: str
    exchange: int
    client: int
    status: Status
    learned: int  # mini-batches so far
    released: int  # updates that have left it so far
    events: list[Event]  # since the last answer that came
    update: Update | None  # at a communication point, or at the end of a task
    labels: list[str] = field(default_factory=list)  # words that it needs a place for


def pack_request(request: Request) -> State:
    """A request as a state: tensors and plain values."""
    return {**vars(request), "steps": list(request.steps)}


def unpack_request(state: State) -> Request:
    """The inverse of `pack_request`."""
    return Request(**{**state, "steps": tuple(state["steps"])})


def pack_reply(reply: Reply) -> State:
    """A reply as a state."""
    update = pack_update(reply.update) if reply.update is not None else None
    return {**vars(reply), "events": [to_json(event) for event in reply.events], "update": update}


def unpack_reply(state: State) -> Reply:
    """The inverse of `pack_reply`."""
    update = unpack_update(state["update"]) if state["update"] is not None else None
    events = [from_json(event) for event in state["events"]]
    return Reply(**{**state, "events": events, "update": update, "labels": state["labels"]})


def pack_update(update: Update) -> State:
    """An update as a state."""
    return {**vars(update), "classes": [list(item) for item in sorted(update.classes.items())]}


def unpack_update(state: State) -> Update:
    """The inverse of `pack_update`."""
    return Update(**{**state, "classes": dict(state["classes"])})
