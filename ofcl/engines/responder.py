"""Answers the server's requests for one client, and keeps the client's state in a folder.

Before an answer is given, a checkpoint in the folder has all of it: the client with its memory and
its position in the stream, the number of the exchange, and the answer. So a process that is killed
at any moment goes on where it was, and a request that comes twice is answered twice but learned
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ofcl.client import Client
from ofcl.compute.devices import all_to_device
from ofcl.data.live.sample import StreamError
from ofcl.engines.cross_tester import CrossTester
from ofcl.engines.local import LocalEngine
from ofcl.engines.messages import (
    Reply,
    Request,
    Status,
    pack_reply,
    pack_update,
    unpack_update,
)
from ofcl.engines.sum_coding import SumCoding
from ofcl.errors import OfclError
from ofcl.events import Evaluated, Event, from_json
from ofcl.secure_sum.party_sum import PartySum
from ofcl.state import Flat, State, Tensors, flatten
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, newest, save_checkpoint
from ofcl.storage.encryption import Seal
from ofcl.update import Update


class OldRequest(OfclError):
    """Raised for a request that is older than the one answered last."""


class LostState(OfclError):
    """Raised if the server has seen answers that this client's saved state knows nothing of.

    Args:
        learned: The mini-batches that the saved state has learned.
        answered: The exchange that it has answered last.
        seen: The exchange that the server has seen an answer to.
    """

    def __init__(self, learned: int, answered: int, seen: int) -> None:
        super().__init__(
            f"the server has seen an answer to exchange {seen} of this run, and what is saved here "
            f"ends with exchange {answered}: it was deleted, damaged or put back, or a copy of "
            "this folder takes part elsewhere. Stop the copy, or bring back the newest state; "
            "to go on with what is here, start once with --accept-loss"
        )
        self.learned = learned


class _NothingToLearn(Exception):
    """Raised when the stream has no sample now, or a new label must get its place first."""


class Keeper(Protocol):
    """Does more with the models of a client than learning; nothing of it is sent.

    What it writes must be the same if it is called again: a process that is killed before the state
    is saved learns the same once more.
    """

    def arrived(self, request: Request, client: Client) -> None:
        """Is called before a request is followed.

        Args:
            request: The server's request.
            client: The client as it was after the last request.

        Raises:
            OfclError: If the request cannot be right; then it is not followed.
        """

    def task_ended(self, request: Request, client: Client) -> None:
        """Is called when a task of the client has ended and been tested, before the next begins.

        Args:
            request: The request that is being followed.
            client: The client.
        """

    def run_over(self, request: Request, client: Client) -> None:
        """Is called for a request that comes after the client has finished.

        Args:
            request: The request, with the final global model.
            client: The client.
        """

    def state(self, client: Client) -> State:
        """Gives what it must know again after a restart, for the client's checkpoint.

        Args:
            client: The client.
        """

    def load_state(self, state: State, client: Client) -> None:
        """Puts back what `state` gave, at the beginning of a run or after a restart.

        Args:
            state: What `state` gave; empty at the beginning of a run.
            client: The client, restored already.
        """


class Responder:
    """Answers requests for one client.

    Args:
        folder: The folder of the client's state, with a folder for each run.
        make: Builds the client as it is at the beginning of a run.
        tell: Is given each line for the user.
        patience: Seconds that it waits for the next sample of a live stream, before it answers that
            the client is still learning.
        asked: Gives the labels that the client has met and that have no place yet. While this list
            is not empty, the client does not wait for its stream, but answers.
        leaving: Chooses which events of an exchange are sent to the server.
        note: Gives plain values that are saved beside the client's state.
        check: Is given the values of `note` that were saved, before the client goes on from its
            saved state; it may raise to refuse that.
        accept_loss: Whether to go on although the server has seen answers that the saved state
            knows nothing of.
        fingerprint: Gives a fingerprint of the client's data for a run's name.
        seal: Encrypts all that is saved; None: it is saved unencrypted.
        keeper: Keeps models of the client, for whoever runs this process; None: nobody does.
        summing: Takes this client's steps in secure sums; None: it takes part in none.
        cross: Takes this client's steps in cross-site validation; None: it refuses these.

    Attributes:
        masked: Whether updates of this run leave by secure sums alone, never in a reply.
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
        check: Callable[[State], None] = lambda saved: None,
        accept_loss: bool = False,
        fingerprint: Callable[[str], str] = lambda run: "",
        seal: Seal | None = None,
        keeper: Keeper | None = None,
        summing: PartySum | None = None,
        cross: CrossTester | None = None,
    ) -> None:
        self._summing, self.masked, self._cross = summing, False, cross
        self._known: Tensors = {}  # the global model of the last request, if models are coded
        self._held: Update | None = None  # the update that waits for a secure sum
        self._accept_loss, self._fingerprint = accept_loss, fingerprint
        self._folder, self._make, self._tell = folder, make, tell
        self.patience, self._asked, self._leaving = patience, asked, leaving
        self._note, self._check_note = note, check
        self._seal, self._keeper = seal, keeper
        self._client: Client | None = None
        self._run = ""
        self._last: Flat | None = None  # the answer that was given last
        # Events, each with its exchange, of answers that may not have arrived.
        self._unseen: list[tuple[int, Event]] = []

    def answer(self, request: Request) -> Flat:
        """Does what a request asks for, saves the client, and gives the answer.

        Args:
            request: The server's request.

        Returns:
            The reply (`pack_reply`). A repeated request gets the same reply again.

        Raises:
            OldRequest: If a later exchange has been answered.
            LostState: If the server has seen answers that the saved state knows nothing of.
            StreamError: If the stream fails; what was learned before is saved.
        """
        client = self._ready(request.run)
        answered = self._answered()
        if request.seen > (answered or 0):
            lost = LostState(client.learned, answered or 0, request.seen)
            if not self._accept_loss:
                raise lost
            self._tell(f"goes on with {client.learned} mini-batches: --accept-loss")
        if self._last is not None and answered is not None and request.exchange <= answered:
            if request.exchange == answered:
                return self._last
            raise OldRequest(
                f"client {client.number} has answered exchange {answered} and does not "
                f"go back to {request.exchange}"
            )
        request = self._whole(request, client)
        try:
            events: list[Event] = []
            failure: StreamError | None = None
            if not request.by_itself:
                self._held = None
                events, failure = self._learn(request, client)
            unseen = [(n, event) for n, event in self._unseen if n > request.seen]
            self._unseen = unseen + [(request.exchange, event) for event in self._leaving(events)]
            self._last = pack_reply(self._reply(request, client))
            self._save(client)
        except BaseException:
            self._client = None  # it may be half changed; the saved one is whole
            raise
        if failure is not None:
            raise failure
        return self._last

    def make_anew(self) -> None:
        """Makes the client anew, from its saved state, before the next request is followed."""
        self._client = None

    def _whole(self, request: Request, client: Client) -> Request:
        """Makes the model of a request whole, if it came as a step from the one before.

        Args:
            request: The request, as it has come.
            client: The client, which knows how models are coded.
        """
        if request.form == "whole":
            model = request.model
        elif not self._known:
            raise OfclError("the server sends a step from a model that is not here")
        else:
            same = request.form == "same"
            model = self._known if same else client.sender.decoded(request.model, self._known)
        if client.sender.coded and not request.by_itself:
            self._known = model
        return replace(request, model=model, form="whole")

    def _answered(self) -> int | None:
        """Gives the number of the exchange that was answered last; None: there was none."""
        return None if self._last is None else int(self._last.tree["exchange"])

    def _learn(self, request: Request, client: Client) -> tuple[list[Event], StreamError | None]:
        """Takes the steps of a request, and learns up to the next communication point.

        Learning ends earlier if the stream fails or has no samples, or a new label needs a place.

        Args:
            request: The server's request.
            client: The client that learns.

        Returns:
            The events, and the error of the stream; None if the stream has not failed.
        """
        if self._keeper is not None:
            self._keeper.arrived(request, client)
        was_finished = client.finished
        engine = LocalEngine([client], pause=self._pausing(client))
        device = next(client.model.parameters()).device
        model = all_to_device(request.model, device)
        handed = all_to_device(request.handed, device)
        for step in request.steps:
            if step in ("take", "go-on"):
                engine.receive(model, [client.number] if step == "take" else [])
            elif step == "begin-task" and client.between_tasks and client.begun < request.task:
                client.begin_task(model, handed)  # if not, it has gone on already
        events, failure = [], None
        try:
            for event in engine.learn(model):
                events.append(event)
                if self._keeper is not None and isinstance(event, Evaluated):
                    self._keeper.task_ended(request, client)
        except _NothingToLearn:
            pass
        except StreamError as error:  # between two mini-batches; what was learned counts
            failure = error
        if self._keeper is not None and was_finished:
            self._keeper.run_over(request, client)
        return [*events, *engine.drain()], failure

    def _pausing(self, client: Client) -> Callable[[float], None]:
        """Makes the function with which the engine waits for samples of a client's live stream.

        The function sleeps for the given seconds. It raises `_NothingToLearn` instead if the client
        has learned nothing for `patience` seconds, or has met a label without a place.
        """
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
        """Gives the client of a run: the one in memory, else the saved one, else a new one."""
        saved = newest(self._folder / run)
        if self._client is None or run != self._run or self._answered() != saved:
            checkpoint = load_checkpoint(self._folder / run, self._tell, self._seal)
            if checkpoint is not None:
                self._check_note(checkpoint.state.get("note", {}))
            self._client, self._run, self._last = self._make(), run, None
            self._unseen, self._held, self._known = [], None, {}
            saved_sum = checkpoint.state.get("summing", {}) if checkpoint is not None else {}
            if self._summing is not None:
                self._summing.load_state(saved_sum)
            if self._cross is not None:
                tested = checkpoint.state.get("cross", {}) if checkpoint is not None else {}
                self._cross.load_state(tested)
            if checkpoint is not None and checkpoint.state.get("held") is not None:
                self._held = unpack_update(checkpoint.state["held"])
            if checkpoint is not None:
                self._known = checkpoint.state.get("known", {})
                self._client.load_state(checkpoint.state["client"])
                self._last = flatten(checkpoint.state["reply"])
                events = map(from_json, self._last.tree["events"])
                self._unseen = list(zip(checkpoint.state["numbers"], events, strict=True))
            if self._keeper is not None:
                kept = checkpoint.state.get("kept", {}) if checkpoint is not None else {}
                self._keeper.load_state(kept, self._client)
        return self._client

    def _reply(self, request: Request, client: Client) -> Reply:
        """Makes the reply to a request from the client's present state."""
        status: Status = "learning"
        if client.waiting:
            status = "waiting"
        elif client.between_tasks:
            status = "between-tasks"
        elif client.finished:
            status = "finished"
        update = None
        if "survey" in request.steps:
            device = next(client.model.parameters()).device
            update = client.survey(all_to_device(request.model, device))
        elif not request.by_itself and status in ("waiting", "between-tasks"):
            device = next(client.model.parameters()).device
            # Nothing is kept back from a secure sum, which hides it: an update without weight
            # would leave fewer updates to hide among, at worst one.
            instead = None if self.masked else all_to_device(request.model, device)
            update = client.update(instead)
            if client.sender.withheld:
                self._tell(
                    f"{client.sender.withheld} new samples are too few for an update (your limit "
                    f"is {client.sender.fewest_new}): the global model was sent back in its place"
                )
        if self.masked and update is not None:
            self._held, update = update, None
        return Reply(
            run=request.run,
            exchange=request.exchange,
            client=client.number,
            status=status,
            learned=client.learned,
            released=client.sender.released,
            events=[event for _, event in self._unseen],
            update=update,
            labels=self._asked(),
            sum=self._step_of_sum(request, client) if "sum" in request.steps else {},
            data=self._fingerprint(request.run),
            cross=self._cross_step(request, client) if "cross-test" in request.steps else {},
        )

    def _step_of_sum(self, request: Request, client: Client) -> State:
        """Takes a step of a secure sum with the update that waits for it."""
        if self._summing is None or self._held is None or not self.masked:
            raise OfclError("the server asks for a secure sum, and no update waits for one")
        coder = SumCoding(client, self._held.state, self._known) if client.sender.coded else None
        return self._summing.answer(
            request.run, request.sum, self._held, client.sender.released, coder
        )

    def _cross_step(self, request: Request, client: Client) -> State:
        """Takes a step of cross-site validation."""
        if self._cross is None:
            raise OfclError("the server asks for cross-site validation, which is not for here")
        return self._cross.answer(request, client)

    def _save(self, client: Client) -> None:
        """Saves the client and the last answer as a checkpoint."""
        assert self._last is not None
        state: State = {
            "client": client.state(),
            "reply": self._last,
            "numbers": [number for number, _ in self._unseen],
            "note": self._note(),
            "kept": self._keeper.state(client) if self._keeper is not None else {},
        }
        if self._known:
            state["known"] = self._known
        if self._cross is not None and (tested := self._cross.state()):
            state["cross"] = tested
        if self.masked and self._summing is not None:
            held = pack_update(self._held) if self._held is not None else None
            state |= {"held": held, "summing": self._summing.state()}
        checkpoint = Checkpoint(self._last.tree["exchange"], 0.0, state)
        save_checkpoint(self._folder / self._run, checkpoint, self._seal)
