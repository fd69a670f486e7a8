"""A party introduces itself to the server, and answers the server's requests.

Samples never leave the party. An answer has tensors and counts (`engines/messages.py`), and only
those events from which accuracy and forgetting are computed (`released_events.py`).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ofcl.client import Client
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.engines.changes import CHANGEABLE, in_words
from ofcl.engines.cross_tester import CrossTester
from ofcl.engines.messages import Reply, Request, pack_reply, unpack_request
from ofcl.engines.responder import LostState, Responder
from ofcl.errors import OfclError, one_line
from ofcl.federation.party_side.audit import Audit
from ofcl.federation.party_side.cross_results import CrossResults, consent_in_words
from ofcl.federation.party_side.kept_models import Keep, KeptModels
from ofcl.federation.party_side.ledger import Ledger
from ofcl.federation.party_side.own_source import Source, Unnamed
from ofcl.federation.party_side.party_policy import Policy
from ofcl.federation.party_side.party_status import PartyStatus
from ofcl.federation.party_side.released_events import leaving
from ofcl.federation.terms import Introduction, Terms, pack, plain_spelling, unpack_terms
from ofcl.methods import METHODS
from ofcl.privacy import system_normal
from ofcl.secure_sum.identity import Identity
from ofcl.secure_sum.party_sum import PartySum, SumRules
from ofcl.state import Flat, State, flatten
from ofcl.storage.atomic_files import CannotWrite
from ofcl.storage.checkpoint import AllDamaged
from ofcl.storage.encryption import Seal
from ofcl.version import __version__, agrees

RUNS = "runs"  # the folder in which a party keeps its state of each run
LOST_WAIT = 2.0  # seconds before the server hears again that the state is lost


class Member:
    """A party that takes part in runs, one at a time.

    Args:
        folder: The party's folder.
        party: The name of the party.
        number: The number of the party: its place in the federation.
        source: The party's dataset or stream.
        class_counts: Whether answers may say how many samples of each class there are.
        federation: The name of the federation, by which the models that it keeps are called.
        keep: Which model the party keeps: the one that all have learned, or its own.
        local_too: Whether a second learner learns from the party's data alone, to compare with.
        cross_site: Whether the party agrees to cross-site validation in runs that ask for it.
        identity: The party's key and the public keys of all parties, for secure aggregation.
        secure_only: Whether runs without secure aggregation are refused.
        policy: The limits that the party sets to every run; None: the usual ones (`Policy`).
        accept_loss: Whether to go on although the server knows of more than what is saved here.
        seal: Encrypts all that is saved; None: it is saved unencrypted.
        status: Takes notes for `ofcl federation watch`; None: nobody does.
        tell: Is given each line of the party's log.
    """

    def __init__(
        self,
        folder: Path,
        party: str,
        number: int,
        source: Source,
        *,
        class_counts: bool = True,
        federation: str = "federation",
        keep: Keep = "global",
        local_too: bool = False,
        cross_site: bool = False,
        identity: Identity | None = None,
        secure_only: bool = False,
        policy: Policy | None = None,
        accept_loss: bool = False,
        seal: Seal | None = None,
        status: PartyStatus | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._status = status
        self._policy = policy or Policy()
        class_counts = class_counts and self._policy.class_counts
        self._cross_site = cross_site and self._policy.cross_site
        self._ledger = Ledger(folder, source.fingerprint)
        self._party, self._number, self._source = party, number, source
        self._class_counts, self._local_too, self._tell = class_counts, local_too, tell
        self._kept = KeptModels(folder, federation, keep=keep, seal=seal, tell=tell)
        self._audit = Audit(folder)
        self._run, self._secure, self._secure_only = "", False, secure_only
        self._terms: Terms | None = None
        self._begun: State = {}  # what must stay as it was when the run began
        self._changed: State = {}  # settings that have changed since the run began
        self._told_spellings: set[str] = set()
        self._compared_labels: Sequence[str] | None = None  # with which spellings were compared
        self._told_alone = False
        self._vocabulary = AssignedVocabulary()
        self._responder = Responder(
            folder / RUNS,
            self._client,
            tell,
            asked=lambda: list(self._vocabulary.requested),
            leaving=lambda events: leaving(events, class_counts),
            note=lambda: {
                "labels": list(self._vocabulary.labels),
                "client": number,
                "fingerprint": source.fingerprint,  # stays here, like all of the state
                "secure": self._secure,
                "begun": self._begun,
            },
            check=self._check_data,
            accept_loss=accept_loss,
            fingerprint=self._fingerprint,
            seal=seal,
            keeper=self._kept,
            summing=PartySum(number, identity, self._sum_rules),
            cross=CrossTester(
                lambda: self._agrees_to_cross_site(self._terms),
                lambda: self._terms.clients if self._terms is not None else 0,
                lambda: len(self._vocabulary.labels),
                lambda client: client.sender.shown(self._kept.own(client)),
                CrossResults(folder, party, lambda: self._run, tell),
            ),
        )

    def answer(self, message: State) -> Flat:
        """Answers a message of the server.

        The audit file names every field of the answer before this method returns.

        Args:
            message: A request and the run's terms; an empty message asks for an introduction.

        Returns:
            The introduction or the reply, ready to be sent.
        """
        return self._answer_request(message) if "request" in message else self._introduce()

    def _introduce(self) -> Flat:
        """Writes the fields of this party's introduction to the audit file, and returns it."""
        samples = self._policy.released(self._source.samples(), self._ledger.secret())
        introduction = Introduction(self._party, self._source.labels, samples, __version__)
        answer = flatten(pack(introduction))
        sent = self._audit.write(answer, what="introduction")
        if self._status is not None:
            self._status.introduced(self._source.labels, sent)
        self._tell("introduced itself")
        return answer

    def _answer_request(self, message: State) -> Flat:
        """Lets the client do what the server requests; gives the reply, after it is audited."""
        request = unpack_request(message["request"])
        terms = _with_changes(unpack_terms(message["terms"]), request.changed)
        if self._status is not None:
            self._status.asked(request, terms.settings, terms.labels)
        answer = self._reply(request, terms)
        sent = self._audit.write(answer, what="answer", run=request.run, exchange=request.exchange)
        reply = answer.tree
        if self._status is not None:
            cost = self._ledger.epsilon(float(terms.settings.get("dp_delta", 1e-5)))
            self._status.answered(request, reply, sent, cost)
        progress = f"exchange {reply['exchange']}: {reply['learned']} mini-batches so far"
        self._tell(f"{progress}, {reply['status']}")
        return answer

    def failed(self) -> None:
        """Notes in the audit file that the server is told of a failure, without the reason."""
        self._audit.write({}, what="failure")
        if self._status is not None:
            self._status.failed()

    def _reply(self, request: Request, terms: Terms) -> Flat:
        """Lets the client of a request's run answer the request.

        If labels of the party's dataset have no place (class) yet, nothing is learned. The reply
        then has the status `asking`, and names these labels.

        Args:
            request: The server's request.
            terms: The terms of the run, which came with the request.
        """
        self._check_request(request, terms)
        if request.run != self._run:
            self._begin(request, terms)
        elif request.changed != self._changed:
            self._policy.check(terms.settings)
            self._tell_changes(terms)
            self._responder.make_anew()
        self._changed = dict(request.changed)
        self._vocabulary.aliases.update(terms.aliases)
        self._vocabulary.assign(terms.labels)
        self._tell_spellings(terms.labels)
        if request.alone and not self._told_alone:
            self._told_alone = True
            self._tell(
                "all others have finished: this party learns alone from now on, and no round will "
                "follow. Its own model still learns; the global one does not"
            )
        self._terms = terms
        self._responder.patience = float(terms.settings.get("patience", 60.0))
        if request.steps != ("cross-test",):  # with it no update leaves
            self._check_cost(request, terms)
        try:
            with _advice_for_parties():
                answer = self._responder.answer(request)
            self._ledger.note(request.run, terms.settings, answer.tree["released"])
            return answer
        except LostState as lost:
            self._tell(f"error: {lost}")
            time.sleep(LOST_WAIT)  # the server asks again at once
            return self._without_learning(request, "lost", learned=lost.learned)
        except Unnamed as unnamed:  # the party begins when these labels have places
            return self._without_learning(request, "asking", labels=unnamed.labels)

    def _check_request(self, request: Request, terms: Terms) -> None:
        """Refuses what a server must not ask for, whatever the policy says.

        Args:
            request: The server's request.
            terms: The terms of the run.

        Raises:
            OfclError: The run has a name that cannot be, the server has changed its terms, its
                updates would leave one by one, or another version made the messages.
        """
        if not re.fullmatch(r"[0-9a-f]{1,64}", request.run):  # it becomes a folder
            raise OfclError(f"the server calls a run {request.run[:80]!r}; that cannot be")
        secure = bool(terms.settings.get("secure_aggregation", False))
        if request.run == self._run and secure != self._secure:
            raise OfclError("the server has changed secure_aggregation within a run; it is refused")
        if self._secure_only and not secure:
            raise OfclError(
                "this party takes part with secure aggregation alone (--secure-only), and the "
                "run's terms have secure_aggregation = false"
            )
        if request.run == self._run:
            _check_same(_what_stays(terms), self._begun)
        self._secure = self._responder.masked = secure
        if not agrees(terms.version):
            raise OfclError(
                f"the server runs ofcl {terms.version[:40]!r} and this party {__version__}, whose "
                "messages may differ; install the same version at both"
            )

    def _begin(self, request: Request, terms: Terms) -> None:
        """Asks the policy about a new run, and says in the log what the run asks for.

        Args:
            request: The first request of the run, or of this process.
            terms: The terms of the run.
        """
        self._policy.check(terms.settings)
        self._run, self._begun = request.run, _what_stays(terms)
        if request.changed:  # before this process was started
            self._tell(f"changed since the run began: {in_words(request.changed)}")
        self._vocabulary = AssignedVocabulary(terms.labels, terms.aliases)
        self._told_spellings, self._told_alone = set(), False
        self._compared_labels = None
        self._tell(_in_words(request.run, terms, self._policy))
        self._tell(self._ledger.in_words(terms.settings))
        if terms.settings.get("cross_site"):
            self._tell(consent_in_words(self._agrees_to_cross_site(terms)))

    def _without_learning(
        self,
        request: Request,
        status: Literal["lost", "asking"],
        learned: int = 0,
        labels: Sequence[str] = (),
    ) -> Flat:
        """Makes the answer of a party that has learned nothing.

        Args:
            request: The server's request.
            status: The reason: its state is lost, or it asks for places of labels.
            learned: The mini-batches that its state knows of.
            labels: The labels without a place.
        """
        return pack_reply(
            Reply(
                run=request.run,
                exchange=request.exchange,
                client=self._number,
                status=status,
                learned=learned,
                released=0,
                events=[],
                update=None,
                labels=list(labels),
            )
        )

    def _tell_changes(self, terms: Terms) -> None:
        """Tells which settings of the run have changed since the last request."""
        before, now = self._terms.settings if self._terms is not None else {}, terms.settings
        new = {name: now[name] for name in CHANGEABLE if now.get(name) != before.get(name)}
        if new:
            self._tell(
                f"the organiser has changed settings of the run: from now on {in_words(new)} "
                f"(before: {in_words({name: before.get(name) for name in new})})"
            )

    def _tell_spellings(self, labels: Sequence[str]) -> None:
        """Tells of own labels that differ from others of the run in case or spaces alone."""
        if labels == self._compared_labels:
            return
        self._compared_labels = labels
        own = set(self._source.labels).difference(self._told_spellings)
        first = {plain_spelling(label): label for label in reversed(labels)}
        for label in sorted(own):
            other = first.get(plain_spelling(label), label)
            if label in labels and other != label:
                self._told_spellings.add(label)
                self._tell(
                    f"your label '{label}' and '{other}' of the run differ in case or spaces "
                    "alone; they are learned as two classes. Rename yours, or ask the organiser "
                    "to join them (aliases.toml)"
                )

    def _sum_rules(self) -> SumRules:
        """Gives the rules of secure sums that the terms of the run mean."""
        assert self._terms is not None
        settings = self._terms.settings
        private = settings.get("dp_clip") is not None
        fewest = int(settings.get("min_clients", 0)) if private else 0  # they share the noise
        coded = settings.get("compress", "none") != "none" and not private  # no rule of both
        return SumRules(int(settings["seed"]), private, fewest, coded)

    def _agrees_to_cross_site(self, terms: Terms | None) -> bool:
        """Tells whether a run asks for cross-site validation, and the party agrees to it.

        It never does where its updates are hidden or are not its last model, whatever the server
        asks for: its own model shows no more than its last update has shown (`Sender.shown`).
        """
        settings = terms.settings if terms is not None else {}
        hidden = settings.get("secure_aggregation") or settings.get("dp_clip") is not None
        shown = not hidden and settings.get("closing_round", "none") != "none"
        return self._cross_site and shown and bool(settings.get("cross_site", False))

    def _check_cost(self, request: Request, terms: Terms) -> None:
        """Raises an error if one more update would be more than the policy allows."""
        released = self._ledger.released(request.run)
        self._policy.check_rounds(released + 1)
        self._policy.check_epsilon(
            self._ledger.epsilon(self._policy.delta, request.run, terms.settings, released + 1)
        )

    def _fingerprint(self, run: str) -> str:
        """Makes a fingerprint of the data by which only the same data in the same run are known."""
        if not self._source.fingerprint:
            return ""
        return hashlib.sha256(f"{run} {self._source.fingerprint}".encode()).hexdigest()[:16]

    def _check_data(self, saved: State) -> None:
        """Raises an error if data or terms are not as when the party began the run.

        Args:
            saved: The note beside the client's saved state; earlier versions had less in it.
        """
        run = self._run
        self._run = ""  # if anything differs, the next request's terms are compared with these, too
        if bool(saved.get("secure", False)) != self._secure:
            raise OfclError("the server has changed secure_aggregation within a run; it is refused")
        _check_same(self._begun, saved.get("begun") or self._begun)
        self._run = run
        before = saved.get("fingerprint")
        if before and before != self._source.fingerprint:
            raise OfclError(
                f"the dataset here is not the one with which run {self._run} was begun: rows were "
                "added or changed, or it is read in another way. Restore it to go on; the next run "
                "takes it as it is. A stream (--dataset watch:FOLDER) may grow during a run"
            )

    def _client(self) -> Client:
        """Makes the client of the run that is going on; the noise on its updates is the system's.

        Raises:
            Unnamed: If labels of the party's dataset have no place (class) yet.
        """
        assert self._terms is not None
        terms = self._terms
        if not self._class_counts:
            terms = replace(terms, settings={**terms.settings, "class_counts": False})
        alone = self._local_too and self._can_learn_alone(str(terms.settings.get("method")))
        made = self._source.client(terms, self._number, self._vocabulary, accompanied=alone)
        self._kept.begin(self._run, made, terms.clients, self._vocabulary)
        client = made.client
        # The server knows the run's seed; it must not know the noise. The noisy update is saved
        # before it leaves, so a party that is killed sends the same one again.
        client.protect(self._policy.update_noise, self._policy.min_rest, system_normal)
        return client

    def _can_learn_alone(self, method: str) -> bool:
        """Tells whether a method can do without the server; if not, says so in the log."""
        if (known := METHODS.get(method)) is not None and known.server_part is not None:
            self._tell(f"{method} cannot learn without the server's part: no --local-too here")
            return False
        return True


@contextmanager
def _advice_for_parties() -> Iterator[None]:
    """Says what a party can do if its disk is full, or its saved states are damaged."""
    try:
        yield
    except CannotWrite as error:
        raise OfclError(
            f"{error.problem}. What was saved before is whole. Make room, or mend it: this party "
            "is asked again every few seconds, and goes on by itself"
        ) from error
    except AllDamaged as error:
        raise OfclError(
            f"every saved state in '{error.folder}' is damaged; nothing was changed. Bring one "
            "back from a backup; or move that folder away and start this party with "
            "--accept-loss: it then goes on from the global model, with an empty memory"
        ) from error


def _what_stays(terms: Terms) -> State:
    """Gives what a server must not change within a run: the policy was asked when it began.

    Args:
        terms: The terms of a request.
    """
    stay = {name: value for name, value in terms.settings.items() if name not in CHANGEABLE}
    return {**stay, "number of parties": terms.clients}


def _check_same(now: State, before: State) -> None:
    """Raises an error if anything differs that must stay as it was when the run began.

    Args:
        now: What came with a request (`_what_stays`).
        before: What the run began with.
    """
    other = sorted(k for k in now.keys() | before.keys() if now.get(k) != before.get(k))
    if other:
        named = ", ".join(one_line(name, 40) for name in other[:5])
        raise OfclError(f"the server has changed {named} within a run; it is refused")


def _with_changes(terms: Terms, changed: State) -> Terms:
    """Gives the terms of a run with the settings that have changed since it began.

    Args:
        terms: The terms, as the run was begun with.
        changed: The values now of the settings that have changed.

    Raises:
        OfclError: If a setting is among them that must not change within a run.
    """
    if wrong := [name for name in changed if name not in CHANGEABLE]:
        raise OfclError(
            f"the server has changed {wrong[0][:40]!r} within a run; it is refused. These may "
            f"change: {', '.join(CHANGEABLE)}"
        )
    return replace(terms, settings={**terms.settings, **changed}) if changed else terms


def _in_words(run: str, terms: Terms, policy: Policy) -> str:
    """Describes a run in a line for the log: what it asks of the party, and what leaves."""
    settings = terms.settings
    clip, noise = settings.get("dp_clip"), settings.get("dp_noise")
    private = f"updates clipped to {clip} with noise {noise}" if clip else "no privacy noise"
    if policy.update_noise:
        change = "the clip" if clip and noise else "an update's change"
        private += f", but noise of {policy.update_noise:g} times {change} at least (your limit)"
    nearest = settings.get("classifier") == "nearest-mean"
    leaving = "; sums of its features by class will leave" if nearest else ""
    if (known := METHODS.get(str(settings.get("method")))) is not None and known.companion:
        leaving += f"; besides the model leaves: {known.sends}"
    memory = f"memory {settings.get('memory')}{leaving}"
    seen = "a sum with others alone" if settings.get("secure_aggregation") else "your updates"
    behind = int(settings.get("batch_size", 1)) * int(settings.get("q", 1))
    asked = one_line(f"{settings.get('method')} with {settings.get('model')}, {memory}, {private}")
    return f"run {run}: {asked}; an update from every {behind} new samples; the server sees {seen}"
