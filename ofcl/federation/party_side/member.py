"""A party's side of a federation: it introduces itself, and answers the server's requests.

Its samples never leave it. What does is an answer's tensors and counts (`engines/messages.py`) and,
of what happened, only what accuracy and forgetting are computed from (`leaving`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from ofcl.client import Client
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.engines.messages import Reply, Request, pack_reply, unpack_request
from ofcl.engines.responder import Responder
from ofcl.errors import OfclError
from ofcl.events import Evaluated, Event, Hits, Learned
from ofcl.federation.party_side.audit import Audit
from ofcl.federation.party_side.own_data import Source, Unnamed
from ofcl.federation.terms import Introduction, Terms, pack, unpack_terms
from ofcl.state import State
from ofcl.storage.checkpoint import seal_open
from ofcl.storage.encryption import Seal

RUNS = "runs"  # the folder in which a party keeps its state of each run
ALL_CLASSES = -1  # stands for the classes of a task where they are not told apart


def seal_saved(runs: Path, seal: Seal, tell: Callable[[str], None] = print) -> None:
    """Encrypts what was saved of all runs before there was a key; tells of what cannot be."""
    for folder in sorted(runs.glob("*")):
        for path in seal_open(folder, seal):
            tell(f"'{path}' is damaged and could not be encrypted: delete it")


class Member:
    """A party that takes part in runs, one at a time.

    `class_counts` False: nothing that leaves tells how many samples of a class there are.
    """

    def __init__(
        self,
        folder: Path,
        party: str,
        number: int,
        source: Source,
        *,
        class_counts: bool = True,
        seal: Seal | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._party, self._number, self._source = party, number, source
        self._class_counts, self._tell = class_counts, tell
        self._audit = Audit(folder)
        self._run = ""
        self._terms: Terms | None = None
        self._vocabulary = AssignedVocabulary()
        self._learner = Responder(
            folder / RUNS,
            self._client,
            tell,
            asked=lambda: list(self._vocabulary.requested),
            leaving=lambda events: leaving(events, class_counts),
            note=lambda: {"labels": list(self._vocabulary.labels), "client": number},
            seal=seal,
        )

    def answer(self, message: State) -> State:
        """What is sent back for what has come; it is in the audit file before it leaves."""
        if "request" not in message:
            introduction = Introduction(self._party, self._source.labels, self._source.samples())
            answer = pack(introduction)
            self._audit.write(answer, what="introduction")
            return answer
        request = unpack_request(message["request"])
        reply = self._reply(request, unpack_terms(message["terms"]))
        answer = pack_reply(reply)
        self._audit.write(answer, what="answer", run=request.run, exchange=request.exchange)
        return answer

    def failed(self) -> None:
        """Notes that the server is told of a failure, and nothing else."""
        self._audit.write({}, what="failure")

    def _reply(self, request: Request, terms: Terms) -> Reply:
        if not re.fullmatch(r"[0-9a-f]{1,64}", request.run):  # it becomes a folder
            raise OfclError(f"the server calls a run {request.run[:80]!r}; that cannot be")
        if request.run != self._run:
            self._run, self._vocabulary = request.run, AssignedVocabulary(terms.labels)
            self._tell(_in_words(request.run, terms))
        self._vocabulary.assign(terms.labels)
        self._terms = terms
        self._learner.patience = float(terms.settings.get("patience", 60.0))
        try:
            return self._learner.answer(request)
        except Unnamed as unnamed:  # it begins when these have places
            return Reply(request.run, request.exchange, self._number, "asking", learned=0,
                         released=0, events=[], update=None, labels=unnamed.labels)  # fmt: skip

    def _client(self) -> Client:
        assert self._terms is not None
        terms = self._terms
        if not self._class_counts:
            settings = {**terms.settings, "class_counts": False}
            terms = Terms(settings, terms.clients, terms.labels, terms.base, terms.samples)
        client = self._source.client(terms, self._number, self._vocabulary)
        # The server knows the run's seed; it must not know the noise.
        client.draw_noise_by(secrets.randbits(63))
        return client


def _in_words(run: str, terms: Terms) -> str:
    """What a party should know of a run before it takes part."""
    told = terms.settings
    clip, noise = told.get("dp_clip"), told.get("dp_noise")
    private = f"updates clipped to {clip} with noise {noise}" if clip else "no privacy noise"
    return f"run {run}: {told.get('method')}, memory {told.get('memory')}, {private}"


def leaving(events: Sequence[Event], class_counts: bool) -> list[Event]:
    """What a party tells of what has happened: how it has learned, in one number a stretch, and
    how many test samples it gets right. What it remembers and what it left out stays with it.
    """
    told: list[Event] = []
    kept = (event for event in events if isinstance(event, Learned | Evaluated))
    for kind, group in groupby(kept, key=lambda event: (type(event), event.task)):
        if kind[0] is Learned:
            told.append(_together([event for event in group if isinstance(event, Learned)]))
        else:
            told += [_told(e, class_counts) for e in group if isinstance(e, Evaluated)]
    return told


def _together(events: list[Learned]) -> Learned:
    return Learned(
        client=events[0].client,
        task=events[0].task,
        batches=sum(event.batches for event in events),
        samples=sum(event.samples for event in events),
        loss=sum(event.loss for event in events),
        correct=sum(event.correct for event in events),
    )


def _told(event: Evaluated, class_counts: bool) -> Evaluated:
    if class_counts:
        return event

    def summed(hits: Hits) -> Hits:
        return [
            [[ALL_CLASSES, sum(row[1] for row in task), sum(row[2] for row in task)]]
            if task
            else []
            for task in hits
        ]

    parts = (summed(hits) for hits in (event.test, event.validation, event.global_test))
    return Evaluated(event.client, event.task, *parts)
