"""The engine for clients elsewhere: on a cluster, at other organisations.

It runs the same loop over rounds (`algorithm.py`) and the same clients as the local engine; between
the two are requests and replies (`messages.py`), which a `Courier` carries. A client that does not
answer in time is absent: the round is without it, and when it is back it starts from the global
model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch

from ofcl.compute.devices import all_to_device
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.engines.gate import Gate, Rejected
from ofcl.engines.messages import (
    Reply,
    Request,
    Status,
    Step,
    pack_update,
    unpack_reply,
    unpack_update,
)
from ofcl.events import Appeared, Event, from_json, to_json
from ofcl.state import State, Tensors
from ofcl.update import Update


class Courier(Protocol):
    """Carries requests to clients and brings what they answer."""

    def exchange(self, requests: Mapping[int, Request]) -> Mapping[int, State]:
        """What those clients have sent that answered in time: replies as states."""

    def close(self) -> None:
        """No request will come any more."""


class RemoteEngine:
    """Clients that are reached by a courier, numbered from 0.

    With fewer than `min_clients` that answer, it asks again and tells whom it waits for, by
    `names`; those that are `gone` are not asked any more, as if their streams had ended. What a
    `gate` rejects counts as no answer. Labels that clients have met and that are
    new to the `vocabulary` get the next places in it. `save` is called before every exchange:
    whoever asks must remember that it did, so that after a crash it asks the same again, and the
    clients give the same answers.
    """

    def __init__(
        self,
        clients: int,
        courier: Courier,
        *,
        run: str,
        min_clients: int = 1,
        gone: Collection[int] = (),
        gate: Gate | None = None,
        vocabulary: Vocabulary | None = None,
        names: Sequence[str] = (),
        save: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self.clients, self._courier, self._run = clients, courier, run
        self._min_clients, self._gate, self._save, self._tell = min_clients, gate, save, tell
        self._vocabulary = vocabulary
        self._names = list(names) or [f"client {number}" for number in range(clients)]
        self._exchange = 0  # exchanges that are over
        self._status: list[Status] = ["learning"] * clients
        self._steps: list[list[Step]] = [[] for _ in range(clients)]  # what each does next
        self._seen = [0] * clients  # the exchange of each one's last answer
        self._handed: Tensors = {}
        self._task = 0  # that the clients have been told to begin
        self._updates: dict[int, Update] = {}  # of those that wait
        self._device = torch.device("cpu")  # the server's
        self._untold: list[Event] = []
        self._released = 0
        self._waited_for: list[int] = []  # those of whom it was told last
        self._gone = [number for number in gone if number < clients]
        self._leave_out()

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets every client learn up to its next communication point, or to its stream's end."""
        yield from self._told()
        self._device = next(iter(global_model.values())).device
        while asked := self._at("learning"):
            self._save()
            requests = {client: self._request(client, global_model) for client in asked}
            answers = self._courier.exchange(requests)
            self._exchange += 1
            absent = []
            for client in asked:
                reply = self._read(answers.get(client), requests[client], client)
                if reply is None:
                    absent.append(client)
                else:
                    self._note(reply)
            for client in absent:  # whatever it missed, it goes on from the newest model
                self._steps[client] = ["take", *self._steps[client][1:]]
            yield from self._told()
            # Those whose streams have nothing now answer too, and are asked again with the others.
            if len(self._at("waiting")) >= self._min_clients or not (
                absent or self._at("learning")
            ):
                self._waited_for = []
                return
            if absent and absent != self._waited_for:
                self._waited_for = absent
                self._tell(f"waiting for {', '.join(self._names[client] for client in absent)}")

    def _request(self, client: int, model: Tensors) -> Request:
        steps = tuple(self._steps[client])
        handed = self._handed if "begin-task" in steps else {}
        return Request(self._run, self._exchange + 1, steps, model, handed, task=self._task,
                       seen=self._seen[client])  # fmt: skip

    def _read(self, answer: State | None, request: Request, client: int) -> Reply | None:
        """An answer that can be right; None: none came, or it was rejected."""
        if answer is None:
            return None
        if self._gate is None:
            return unpack_reply(answer)
        try:
            return self._gate.passed(answer, request, client)
        except Rejected as error:
            self._tell(f"rejected what {self._names[client]} has sent: {error}")
            return None

    def _note(self, reply: Reply) -> None:
        if reply.status != "asking":  # then it is asked for the same again
            self._status[reply.client], self._steps[reply.client] = reply.status, []
        self._seen[reply.client] = reply.exchange
        self._released = max(self._released, reply.released)
        self._untold += reply.events
        for label in reply.labels:
            if self._vocabulary is not None and label not in self._vocabulary:
                place = self._vocabulary.place(label)
                self._untold.append(Appeared(reply.client, label, place))
        if reply.update is not None:
            self._updates[reply.client] = reply.update

    def _told(self) -> Iterator[Event]:
        """Events, each taken off the list first: what a checkpoint finds there is not told yet."""
        while self._untold:
            yield self._untold.pop(0)

    def _at(self, status: Status) -> list[int]:
        return [client for client in range(self.clients) if self._status[client] == status]

    def waiting(self) -> list[int]:
        """The clients that have reached a communication point."""
        return self._at("waiting")

    def between_tasks(self) -> list[int]:
        """The clients that have finished a task and wait for the others to have."""
        return self._at("between-tasks")

    def updates(self, clients: Sequence[int]) -> list[Update]:
        """What these clients have sent, on the server's device."""
        return [_on(self._device, self._updates[client]) for client in clients]

    def receive(self, global_model: Tensors, clients: Sequence[int]) -> None:
        """Notes that these clients are to take the global model, and that all that wait go on."""
        for client in self.between_tasks():
            if client in clients:
                self._steps[client].append("take")
        for client in self.waiting():
            self._steps[client].append("take" if client in clients else "go-on")
            self._status[client] = "learning"
            del self._updates[client]

    def begin_task(self, global_model: Tensors, clients: Sequence[int], handed: Tensors) -> None:
        """Notes that these clients are to begin the next task with what the server hands out."""
        self._handed, self._task = handed, self._task + 1
        for client in clients:
            self._steps[client].append("begin-task")
            self._status[client] = "learning"
            del self._updates[client]

    def released(self) -> int:
        """The most updates that have left one client."""
        return self._released

    def close(self) -> None:
        """No request will come any more."""
        self._courier.close()

    def state(self) -> State:
        """What has been said, for a checkpoint; the clients keep their own state."""
        return {
            "exchange": self._exchange,
            "status": list(self._status),
            "steps": [list(steps) for steps in self._steps],
            "seen": list(self._seen),
            "released": self._released,
            "handed": self._handed,
            "task": self._task,
            "updates": [pack_update(update) for update in self._updates.values()],
            "untold": [to_json(event) for event in self._untold],
        }

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        self._exchange, self._handed = int(state["exchange"]), state["handed"]
        self._task = int(state["task"])
        self._status, self._steps = list(state["status"]), [list(s) for s in state["steps"]]
        self._seen, self._released = list(state["seen"]), int(state["released"])
        updates = map(unpack_update, state["updates"])
        self._updates = {update.client: update for update in updates}
        self._untold = [from_json(event) for event in state["untold"]]
        self._leave_out()

    def _leave_out(self) -> None:
        """Those that are gone have nothing more to do; what they sent last is not averaged."""
        for client in self._gone:
            self._status[client], self._steps[client] = "finished", []
            self._updates.pop(client, None)


def _on(device: torch.device, update: Update) -> Update:
    state, extras = (all_to_device(tensors, device) for tensors in (update.state, update.extras))
    return replace(update, state=state, extras=extras)
