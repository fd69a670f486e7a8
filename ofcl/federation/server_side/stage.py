"""A run between parties: the stage on which it takes place, at the server.

The server knows no data. It makes the model from what the parties have told of their samples, and
gives new labels their places.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ofcl.assembly.checks import check_run, check_settings
from ofcl.assembly.make_client import needs_class_counts
from ofcl.assembly.make_learner import build_model
from ofcl.assembly.make_server import build_server
from ofcl.assembly.participants import Participants, form_of
from ofcl.assembly.resolve import resolve
from ofcl.assembly.stages import Hooks, Prepared
from ofcl.data.dataset import Dataset
from ofcl.data.live.form import Pattern
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.tasks import usual_tasks
from ofcl.engines.gate import Gate
from ofcl.engines.remote import RemoteEngine
from ofcl.errors import OfclError
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.server_side.label_space import LabelSpace
from ofcl.federation.setup.folders import Federation
from ofcl.federation.terms import (
    MOST_LABELS,
    Samples,
    Terms,
    agree,
    travelling_settings,
    unpack_samples,
)
from ofcl.federation.transport import Transport
from ofcl.methods import METHODS
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import AT_PARTY, check_combination
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.update import travelling

MOST_TASKS = 10_000  # of a stream
AT_EACH_PARTY = "at each party"  # where the streams of a run are


def run_settings(federation: Federation, values: State) -> Settings:
    """Makes the settings of a run between parties.

    Args:
        federation: Who takes part.
        values: The values of a settings file and of the command line.
    """
    if own := [name for name in values if name in AT_PARTY and name != "device"]:
        raise OfclError(
            f"{own[0]} is decided by each party: ofcl federation client … --set {own[0]}=…; leave "
            "it out of the settings of the run"
        )
    clients = len(federation.parties)
    if values.get("clients", clients) != clients:
        left = (
            f", those that have left included ({len(federation.left)})" if federation.left else ""
        )
        raise OfclError(f"'{federation.name}' has {clients} parties{left}; leave clients out")
    fixed = {"dataset": federation.name, "clients": clients, "engine": "flower"}
    return make_settings(values, fixed)


class FederationStage:
    """The parties of a federation, reached by a transport.

    Args:
        federation: Who takes part.
        folder: The folder of the federation, for what a person is told to type.
        transport: Carries messages to the parties.
    """

    def __init__(self, federation: Federation, folder: Path, transport: Transport) -> None:
        self._federation, self._folder, self._transport = federation, folder, transport

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Makes the server and the engine that asks the parties, and trusts none of them.

        Of a new run, it waits until enough parties have introduced themselves.
        """
        check_settings(settings)

        def terms() -> Terms:  # not asked for before they are agreed on, below
            told = travelling_settings(settings)
            labels, base = vocabulary.labels, agreement.base
            return Terms(told, settings.clients, labels, base, agreement.samples)

        courier = Courier(
            self._transport,
            self._federation.parties,
            gone=self._federation.gone,
            terms=terms,
            deadline=settings.round_timeout,
            pause=hooks.pause,
            tell=hooks.tell,
        )
        agreement = self._agree(settings, courier) if known is None else Agreement.of_run(known)
        settings = _settled(settings, agreement)
        # Heads start without the classes that came later: they grow with a checkpoint, or a round.
        first_labels = agreement.labels[: agreement.base]
        dataset = _empty_dataset(self._federation.name, agreement.samples, first_labels)
        settings = resolve(settings, dataset)
        check_settings(settings)  # now that it is known whether parties have streams
        check_run(settings, dataset, len(first_labels))
        vocabulary = LabelSpace(agreement.labels, hooks.tell)
        rounds = self._for_those_present(settings, hooks, new=known is None)
        samples = agreement.samples
        participants = Participants(
            settings=settings,
            clients=[],
            server=build_server(rounds, dataset),
            vocabulary=vocabulary,
            warnings=[],
            batches=None,
            pattern=Pattern(samples.kind, samples.shape),
            form=form_of(dataset),
            agreed={"run": agreement.run, "base": agreement.base, "samples": vars(samples)},
        )
        engine = RemoteEngine(
            settings.clients,
            courier,
            run=agreement.run,
            min_clients=self._fewest(settings),
            gone=self._federation.gone,
            gate=_gate(settings, dataset, vocabulary),
            vocabulary=vocabulary,
            names=self._federation.parties,
            save=hooks.save,
            tell=hooks.tell,
        )
        return Prepared(participants, engine)

    def _agree(self, settings: Settings, courier: Courier) -> Agreement:
        """Asks the parties to introduce themselves, and makes an agreement of what they say."""
        introductions = courier.introductions(self._fewest(settings))
        names = self._federation.parties
        labels, samples = agree({names[k]: introductions[k] for k in sorted(introductions)})
        return Agreement(secrets.token_hex(8), labels, len(labels), samples)

    def _present(self, settings: Settings) -> int:
        """Counts the run's parties that take part in the federation."""
        return settings.clients - sum(number < settings.clients for number in self._federation.gone)

    def _fewest(self, settings: Settings) -> int:
        """Gives the number of parties that a round needs: no more than take part."""
        return min(settings.min_clients, self._present(settings))

    def _for_those_present(self, settings: Settings, hooks: Hooks, *, new: bool) -> Settings:
        """Settings for the server: rounds are of the parties that are left; never of one alone."""
        present, clients = self._present(settings), settings.clients
        if present == clients:
            return settings
        fewest = min(settings.min_clients, max(2, present))
        if present < fewest:
            problem = f"{present} party takes part, and min_clients is {settings.min_clients}"
            if new:
                raise OfclError(
                    f"{problem}: no round could ever happen; set min_clients = {present}"
                )
            hooks.tell(f"warning: {problem}: no round will happen any more")
        elif fewest < settings.min_clients:
            hooks.tell(
                f"min_clients is {settings.min_clients}; as parties have left, it is {fewest} now"
            )
        share = settings.participation * present / clients  # of all, as the server counts
        return settings.model_copy(update={"min_clients": fewest, "participation": share})

    def resume_command(self, directory: Path) -> str:
        """Says what to type to go on with a run that was stopped."""
        return f"ofcl federation start {self._folder} --resume"


@dataclass(frozen=True)
class Agreement:
    """The agreement of server and parties at the beginning of a run.

    Args:
        run: The name of the run, drawn at random.
        labels: All labels so far, in the order of their places.
        base: How many of them were there when the run began; tasks are made of these.
        samples: What the samples look like.
    """

    run: str
    labels: tuple[str, ...]
    base: int
    samples: Samples

    @classmethod
    def of_run(cls, known: State) -> Agreement:
        """Reads the agreement of a run that is resumed from its checkpoint."""
        samples = unpack_samples(known["samples"])
        return cls(known["run"], tuple(known["labels"]), known["base"], samples)


def _settled(settings: Settings, agreement: Agreement) -> Settings:
    """Settings with streams, or with as many tasks as the labels make."""
    found: dict[str, Any] = {}
    if agreement.samples.way == "stream":
        found["streams"] = (AT_EACH_PARTY,) * settings.clients
        found["dataset"] = Settings.model_fields["dataset"].default  # there is none
    elif "tasks" not in settings.model_fields_set:
        found["tasks"] = min(settings.tasks, usual_tasks(agreement.base))
    settings = settings.model_copy(update=found)
    check_combination(settings)
    return settings


def _empty_dataset(name: str, samples: Samples, labels: tuple[str, ...]) -> Dataset:
    """A dataset without samples that has the form of the parties' samples."""
    dtype = torch.uint8 if samples.kind == "image" else torch.float
    x, y = torch.empty(0, *samples.shape, dtype=dtype), torch.empty(0, dtype=torch.long)
    return Dataset(name, samples.kind, x, y, x, y, labels, samples.mean, samples.std)


def _gate(settings: Settings, dataset: Dataset, vocabulary: Vocabulary) -> Gate:
    """Builds the check of everything that parties answer."""
    statistics = settings.batchnorm == "average"
    return Gate(
        travelling(build_model(settings, dataset), statistics),
        classes=lambda: len(vocabulary.labels),
        batch_size=settings.batch_size,
        most_labels=MOST_LABELS,
        most_tasks=MOST_TASKS if settings.streams else settings.tasks,
        class_counts=needs_class_counts(settings),
        extras=METHODS[settings.method].generative is not None,
    )
