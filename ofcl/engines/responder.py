"""A client on its own: it answers the server's requests, and keeps its state where it is.

Before an answer leaves, everything is in the party's folder, whole or not at all: the client with
its memory and stream, the number of the exchange and the answer itself. So a party that is killed
at any moment goes on where it was, and a request that comes twice is answered twice but learned
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ofcl.client import Client
from ofcl.compute.devices import all_to_device
from ofcl.data.live.sample import StreamError
from ofcl.engines.local import LocalEngine
from ofcl.engines.messages import Reply, Request, Status, pack_reply, unpack_reply
from ofcl.errors import OfclError
from ofcl.events import Event
from ofcl.state import State
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, newest, save_checkpoint
from ofcl.storage.encryption import Seal


class OldRequest(OfclError):
    """A request from before what the party has already answered."""


class _NothingToLearn(Exception):
    """The stream has nothing more for now, or needs a place for a label first."""


class Responder:
    """One client and its folder; `make` builds the client as it is at the beginning.

    Where streams are live, it answers that it is still learning when nothing has come for
    `patience` seconds, or when it has met labels for which it must ask (`asked`). `leaving` says
    what is told of events; `note` is kept with what is saved. With a `seal` all of it is encrypted.
    """

    def __init__(
        self,
        folder: Path,
        make: Callable[[], Client],
        tell: Callable[[str], None] = print,
        *,
        patience: float = 60.0,
        asked: Callable[[], list[str]] = list,
        leaving: Callable[[Sequence[Event]], list[Event]] = list,
        note: Callable[[], State] = dict,
        seal: Seal | None = None,
    ) -> None:
        self._folder, self._make, self._tell = folder, make, tell
        self.patience, self._asked, self._leaving = patience, asked, leaving
        self._note, self._seal = note, seal
        self._client: Client | None = None
        self._run = ""
        self._last: Reply | None = None
        # Events, each with its exchange, of answers that may not have come.
        self._unseen: list[tuple[int, Event]] = []

    def answer(self, request: Request) -> Reply:
        """Does what is asked, and saves it before the answer is given."""
        client = self._ready(request.run)
        if self._last is not None and request.exchange <= self._last.exchange:
            if request.exchange == self._last.exchange:
                return self._last
            raise OldRequest(
                f"client {client.number} has answered exchange {self._last.exchange} and does not "
                f"go back to {request.exchange}"
            )
        try:
            events, failure = self._learned(request, client)
            unseen = [(n, e) for n, e in self._unseen if n > request.seen]
            told = self._leaving(events)
            self._unseen = unseen + [(request.exchange, event) for event in told]
            self._last = self._made(request, client)
            self._save(client)
        except BaseException:
            self._client = None  # it may be half changed; what was saved is whole
            raise
        if failure is not None:
            raise failure
        return self._last

    def _learned(self, request: Request, client: Client) -> tuple[list[Event], StreamError | None]:
        """Does what is asked, up to the next communication point or to where the stream fails."""
        engine = LocalEngine([client], pause=self._pausing(client))
        device = next(client.model.parameters()).device
        model, handed = (
            all_to_device(tensors, device) for tensors in (request.model, request.handed)
        )
        for step in request.steps:
            if step != "begin-task":
                engine.receive(model, [client.number] if step == "take" else [])
            elif client.between_tasks and client.task == request.task:  # if not, it has begun it
                client.begin_task(model, handed)
        events, failure = [], None
        try:
            for event in engine.learn(model):
                events.append(event)
        except _NothingToLearn:
            pass
        except StreamError as error:  # between two mini-batches; what was learned counts
            failure = error
        return [*events, *engine.drain()], failure

    def _pausing(self, client: Client) -> Callable[[float], None]:
        """Waits for a stream, but not longer than `patience` and not for a label's place."""
        learned, since = client.learned, time.monotonic()

        def pause(seconds: float) -> None:
            nonlocal learned, since
            if client.learned != learned:
                learned, since = client.learned, time.monotonic()
            if self._asked() or time.monotonic() - since >= self.patience:
                raise _NothingToLearn
            time.sleep(seconds)

        return pause

    def _ready(self, run: str) -> Client:
        """The client of a run as it was left, perhaps by another process; or a new one."""
        known = self._last.exchange if self._last is not None else None
        if self._client is None or run != self._run or known != newest(self._folder / run):
            self._client, self._run, self._last = self._make(), run, None
            self._unseen = []
            checkpoint = load_checkpoint(self._folder / run, self._tell, self._seal)
            if checkpoint is not None:
                self._client.load_state(checkpoint.state["client"])
                self._last = unpack_reply(checkpoint.state["reply"])
                numbers = checkpoint.state["numbers"]
                self._unseen = list(zip(numbers, self._last.events, strict=True))
        return self._client

    def _made(self, request: Request, client: Client) -> Reply:
        status: Status = "learning"
        if client.waiting:
            status = "waiting"
        elif client.between_tasks:
            status = "between-tasks"
        elif client.finished:
            status = "finished"
        sends = status in ("waiting", "between-tasks")
        update = client.update() if sends else None
        return Reply(
            run=request.run,
            exchange=request.exchange,
            client=client.number,
            status=status,
            learned=client.learned,
            released=client.released,
            events=[event for _, event in self._unseen],
            update=update,
            labels=self._asked(),
        )

    def _save(self, client: Client) -> None:
        assert self._last is not None
        numbers = [number for number, _ in self._unseen]
        state = {
            "client": client.state(),
            "reply": pack_reply(self._last),
            "numbers": numbers,
            "note": self._note(),
        }
        checkpoint = Checkpoint(self._last.exchange, 0.0, state)
        save_checkpoint(self._folder / self._run, checkpoint, self._seal)
