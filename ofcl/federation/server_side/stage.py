"""A run between parties: the stage on which it takes place, at the server.

The server knows no data. It makes the model from what the parties have told of their samples, and
gives new labels their places.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ofcl.algorithm import Engine
from ofcl.assembly import build
from ofcl.assembly.checks import check_generative, check_model
from ofcl.assembly.participants import Parties
from ofcl.assembly.stages import Hooks
from ofcl.data.dataset import Dataset
from ofcl.data.live.form import Pattern
from ofcl.data.tasks import usual_tasks
from ofcl.engines.gate import Gate
from ofcl.engines.remote import RemoteEngine
from ofcl.errors import OfclError
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.setup.folders import Federation
from ofcl.federation.terms import (
    MOST_LABELS,
    LabelSpace,
    Samples,
    Terms,
    agreed,
    travelling_settings,
    unpack_samples,
)
from ofcl.federation.transport import Transport
from ofcl.methods import METHODS
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import AT_PARTY, check_combination
from ofcl.settings.schema import Settings
from ofcl.state import State, Tensors
from ofcl.update import travelling

MOST_TASKS = 10_000  # of a stream
AT_EACH_PARTY = "at each party"  # where the streams of a run are


def run_settings(federation: Federation, values: State) -> Settings:
    """The settings of a run from what a settings file says."""
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
    """The parties of a federation, reached by a transport."""

    def __init__(self, federation: Federation, folder: Path, transport: Transport) -> None:
        self._federation, self._folder, self._transport = federation, folder, transport
        self._terms: Callable[[], Terms]
        self._sent: Tensors  # what an update looks like

    def parties(self, settings: Settings, known: State | None, hooks: Hooks) -> Parties:
        """The server's side; waits until enough parties have introduced themselves."""
        self._courier = Courier(
            self._transport,
            self._federation.parties,
            gone=self._federation.gone,
            terms=lambda: self._terms(),
            deadline=settings.round_timeout,
            pause=hooks.pause,
            tell=hooks.tell,
        )
        if known is None:
            found = self._courier.introductions(self._fewest(settings))
            names = self._federation.parties
            labels, samples = agreed({names[k]: found[k] for k in sorted(found)})
            base, run = len(labels), secrets.token_hex(8)
        else:
            labels, base, run = tuple(known["labels"]), known["base"], known["run"]
            samples = unpack_samples(known["samples"])
        settings = _settled(settings, samples, base)
        # Heads start without the classes that came later: they grow with a checkpoint, or a round.
        dataset = _empty(self._federation.name, samples, labels[:base])
        settings = build.resolve(settings, dataset)
        _check(settings, dataset)
        statistics = settings.batchnorm == "average"
        self._sent = travelling(build.build_model(settings, dataset), statistics)
        vocabulary = LabelSpace(labels, hooks.tell)
        rounds = self._of_those_there(settings, hooks, known is None)

        def terms() -> Terms:
            told = travelling_settings(settings)
            return Terms(told, settings.clients, vocabulary.labels, base, samples)

        self._terms = terms
        return Parties(
            settings=settings,
            clients=[],
            server=build.build_server(rounds, dataset),
            vocabulary=vocabulary,
            warnings=[],
            batches=None,
            pattern=Pattern(samples.kind, samples.shape),
            form={"kind": samples.kind, "mean": list(samples.mean), "std": list(samples.std)},
            agreed={"run": run, "base": base, "samples": vars(samples)},
        )

    def engine(self, parties: Parties, hooks: Hooks) -> Engine:
        """The engine that asks the parties, and trusts none of them."""
        settings = parties.settings
        generative = METHODS[settings.method].generative is not None
        gate = Gate(
            self._sent,
            classes=lambda: len(parties.labels),
            batch_size=settings.batch_size,
            most_labels=MOST_LABELS,
            most_tasks=MOST_TASKS if settings.streams else settings.tasks,
            class_counts=settings.aggregation == "weighted",
            extras=generative,
        )
        return RemoteEngine(
            settings.clients,
            self._courier,
            run=parties.agreed["run"],
            min_clients=self._fewest(settings),
            gone=self._federation.gone,
            gate=gate,
            vocabulary=parties.vocabulary,
            names=self._federation.parties,
            save=hooks.save,
            tell=hooks.tell,
        )

    def _there(self, settings: Settings) -> int:
        """How many of the run's parties take part in the federation."""
        return settings.clients - sum(number < settings.clients for number in self._federation.gone)

    def _fewest(self, settings: Settings) -> int:
        """How many parties there must be: no more than take part."""
        return min(settings.min_clients, self._there(settings))

    def _of_those_there(self, settings: Settings, hooks: Hooks, new: bool) -> Settings:
        """For the server: rounds are of those who are there; but never of one alone."""
        there, clients = self._there(settings), settings.clients
        if there == clients:
            return settings
        fewest = min(settings.min_clients, max(2, there))
        if there < fewest:
            problem = f"{there} party takes part, and min_clients is {settings.min_clients}"
            if new:
                raise OfclError(f"{problem}: no round could ever happen; set min_clients = {there}")
            hooks.tell(f"warning: {problem}: no round will happen any more")
        elif fewest < settings.min_clients:
            told = (
                f"min_clients is {settings.min_clients}; as parties have left, it is {fewest} now"
            )
            hooks.tell(told)
        share = settings.participation * there / clients  # of all, as the server counts
        return settings.model_copy(update={"min_clients": fewest, "participation": share})

    def go_on(self, directory: Path) -> str:
        """What to type to go on with a run that was stopped."""
        return f"ofcl federation start {self._folder} --resume"


def _settled(settings: Settings, samples: Samples, base: int) -> Settings:
    found: dict[str, Any] = {}
    if samples.way == "stream":
        found["streams"] = (AT_EACH_PARTY,) * settings.clients
        found["dataset"] = Settings.model_fields["dataset"].default  # there is none
    elif "tasks" not in settings.model_fields_set:
        found["tasks"] = min(settings.tasks, usual_tasks(base))
    settings = settings.model_copy(update=found)
    check_combination(settings)
    return settings


def _empty(name: str, samples: Samples, labels: tuple[str, ...]) -> Dataset:
    kind = torch.uint8 if samples.kind == "image" else torch.float
    x, y = torch.empty(0, *samples.shape, dtype=kind), torch.empty(0, dtype=torch.long)
    return Dataset(name, samples.kind, x, y, x, y, labels, samples.mean, samples.std)


def _check(settings: Settings, dataset: Dataset) -> None:
    check_model(settings, dataset)
    if settings.stagger:
        raise OfclError("stagger is for runs in one process; parties come when they come")
    method = METHODS[settings.method]
    if method.generative is not None:
        if settings.streams:
            raise OfclError(f"{settings.method} needs tasks that end for all; streams do not")
        check_generative(settings, dataset)
    if method.policy is not None and settings.memory < len(dataset.labels):
        raise OfclError(
            f"memory = {settings.memory} is smaller than the number of classes "
            f"({len(dataset.labels)}); every class needs at least one place"
        )
