"""Prepares a run between parties, at the server.

The server has no data. It builds the model from the form of samples that the parties describe, and
decides which class each label is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ofcl.assembly.checks import check_run, check_settings
from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.make_client import fewest_in_sum, needs_class_counts
from ofcl.assembly.make_learner import build_model
from ofcl.assembly.make_server import build_server
from ofcl.assembly.participants import Participants, form_of
from ofcl.assembly.resolve import resolve
from ofcl.assembly.stages import Hooks, Prepared
from ofcl.data.dataset import Dataset
from ofcl.data.files.embedders import EMBEDDERS, Embedder
from ofcl.data.files.image_embedders import embeds_images
from ofcl.data.live.form import Pattern
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.sample_forms import SampleForm, TextForm, VectorForm
from ofcl.data.tasks import usual_tasks
from ofcl.engines.gate import Gate
from ofcl.engines.quarantine import Quarantine
from ofcl.engines.remote import RemoteEngine
from ofcl.errors import OfclError
from ofcl.federation.image_vectors import agreed_scaling
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.server_side.label_space import LabelSpace
from ofcl.federation.setup.folders import Federation
from ofcl.federation.terms import (
    MOST_LABELS,
    Introduction,
    Samples,
    Terms,
    agree,
    travelling_settings,
    unpack_samples,
)
from ofcl.federation.transport import Transport
from ofcl.secure_sum.masking import FEWEST
from ofcl.secure_sum.server_sum import ServerSum
from ofcl.server import Server
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import AT_PARTY, check_combination
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.update import travelling

MOST_TASKS = 10_000  # tasks that a stream may have
MOST_NEW_LABELS = 1000  # labels that one answer may bring
AT_EACH_PARTY = "at each party"  # stands in the settings for the name of a party's stream


def run_settings(federation: Federation, values: State) -> Settings:
    """Makes the settings of a run between parties.

    Args:
        federation: The federation.
        values: The values of a settings file and of the command line.

    Raises:
        OfclError: If a value is each party's to decide, or does not fit the federation.
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
    """A stage whose clients are the parties of a federation, reached by a transport.

    Args:
        federation: The federation.
        folder: The folder of the federation, named in messages that say which command to type.
        transport: Carries messages to the parties.
        readmitted: Names of parties that are let in again after a quarantine.
        back: Whether a resumed run goes back to an earlier global model at once.
    """

    def __init__(
        self,
        federation: Federation,
        folder: Path,
        transport: Transport,
        *,
        readmitted: Collection[str] = (),
        back: bool = False,
    ) -> None:
        self._federation, self._folder, self._transport = federation, folder, transport
        self._readmitted, self._back = readmitted, back

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Makes the server, and the engine that asks the parties and checks their answers.

        A new run waits until enough parties have introduced themselves.

        Args:
            settings: The settings of the run.
            known: The participants' state in the checkpoint of a resumed run; None: a new run.
            hooks: How to wait, to save and to tell the user.
        """
        check_settings(settings)
        if settings.secure_aggregation:  # no smaller round could be summed up
            fewest = fewest_in_sum(settings)
            settings = settings.model_copy(update={"min_clients": fewest})

        def terms() -> Terms:  # not asked for before they are agreed on, below
            announced = travelling_settings(settings)
            labels, base = vocabulary.labels, agreement.base
            return Terms(announced, settings.clients, labels, base, agreement.samples)

        courier = Courier(
            self._transport,
            self._federation.parties,
            gone=self._federation.gone,
            terms=terms,
            deadline=settings.round_timeout,
            pause=hooks.pause,
            tell=hooks.tell,
        )
        agreement = (
            self._agree(settings, courier, hooks.tell) if known is None else Agreement.of_run(known)
        )
        settings = _settled(settings, agreement)
        # Heads start without the classes that came later: they grow with a checkpoint, or a round.
        first_labels = agreement.labels[: agreement.base]
        dataset = _empty_dataset(self._federation.name, agreement.samples, first_labels)
        settings = resolve(settings, dataset)
        check_settings(settings)  # now that it is known whether parties have streams
        check_run(settings, dataset, len(first_labels))
        vocabulary = LabelSpace(agreement.labels, hooks.tell)
        rounds = self._for_those_present(settings, hooks, new=known is None)
        samples, names = agreement.samples, self._federation.parties

        def report(client: int, what: str) -> None:
            hooks.tell(f"{names[client]}: {what}")

        participants = Participants(
            settings=settings,
            clients=[],
            server=build_server(rounds, dataset, report),
            vocabulary=vocabulary,
            warnings=[],
            batches=None,
            sample_form=lambda: _sample_form(samples, dataset, settings),
            pattern=Pattern(samples.kind, samples.shape),
            form=form_of(dataset),
            agreed={"run": agreement.run, "base": agreement.base, "samples": asdict(samples)},
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
            summing=_summing(settings, dataset, vocabulary, agreement.run, self._federation, hooks),
            # After a closing round nobody learns on: every party has the final model.
            hand_out=courier.hand_out if settings.closing_round == "none" else None,
            quarantine=Quarantine(agreement.odd),
            readmitted=[names.index(name) for name in self._readmitted],
            watch=_watch(participants.server, courier, hooks.tell, back=self._back),
            save=hooks.save,
            tell=hooks.tell,
        )
        return Prepared(participants, engine)

    def _agree(
        self, settings: Settings, courier: Courier, tell: Callable[[str], None]
    ) -> Agreement:
        """Asks the parties for their introductions, and makes the agreement from these."""
        introductions = courier.introductions(self._fewest(settings))
        names = self._federation.parties
        named = {names[k]: introductions[k] for k in sorted(introductions)}
        agreed = agree(named, self._fewest(settings), tell)
        _check_memory(settings, agreed.labels, named)
        odd = tuple(names.index(name) for name in agreed.odd)
        run = secrets.token_hex(8)
        return Agreement(run, agreed.labels, len(agreed.labels), agreed.samples, odd)

    def _present(self, settings: Settings) -> int:
        """Counts the parties of the run that have not left the federation."""
        return settings.clients - sum(number < settings.clients for number in self._federation.gone)

    def _fewest(self, settings: Settings) -> int:
        """Gives `min_clients`, or the number of parties that have not left if that is smaller."""
        return min(settings.min_clients, self._present(settings))

    def _for_those_present(self, settings: Settings, hooks: Hooks, *, new: bool) -> Settings:
        """Lowers `min_clients` and `participation` if parties have left the federation.

        Args:
            settings: The settings of the run.
            hooks: How to tell the user of a lowered `min_clients`.
            new: Whether the run is new. If too few parties are left for a round, a new run is
                refused with an error, and the user of a resumed one is warned.

        Returns:
            The settings for the server; unchanged if no party has left.
        """
        present, clients = self._present(settings), settings.clients
        if settings.secure_aggregation and present < FEWEST:
            raise OfclError(
                f"secure_aggregation needs {FEWEST} parties, and {present} are left: a sum of "
                "fewer would show single updates; begin a run without it, or add parties"
            )
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
        share = settings.participation * present / clients  # the server takes it of all parties
        return settings.model_copy(update={"min_clients": fewest, "participation": share})

    def resume_command(self, directory: Path) -> str:
        """Gives the command that resumes the stopped run of this federation.

        Args:
            directory: Not used: the federation knows its newest run.
        """
        return f"ofcl federation start {self._folder} --resume"


@dataclass(frozen=True)
class Agreement:
    """The agreement between server and parties at the beginning of a run.

    Args:
        run: The name of the run, drawn at random.
        labels: All labels so far, in the order of their places.
        base: How many of the labels were known when the run began; tasks are made of these.
        samples: The form of the samples.
        odd: The numbers of parties whose samples have another form; they are left out.
    """

    run: str
    labels: tuple[str, ...]
    base: int
    samples: Samples
    odd: tuple[int, ...] = ()

    @classmethod
    def of_run(cls, known: State) -> Agreement:
        """Reads the agreement of a run that is resumed.

        Args:
            known: The participants' state in the run's checkpoint.
        """
        samples = unpack_samples(known["samples"])
        return cls(known["run"], tuple(known["labels"]), known["base"], samples)


def _settled(settings: Settings, agreement: Agreement) -> Settings:
    """Fills in the settings that depend on the parties' data.

    If parties have streams: a name for each stream, and no dataset. If they have datasets: the
    number of tasks, unless the settings give it.

    Args:
        settings: The settings of the run.
        agreement: The agreement of the run, with the form of the samples and the labels.
    """
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
    """Makes a dataset without samples, from which the model is built.

    Args:
        name: The name of the dataset.
        samples: The form of the parties' samples.
        labels: The labels of its classes.
    """
    dtype = torch.uint8 if samples.kind == "image" else torch.float
    x, y = torch.empty(0, *samples.shape, dtype=dtype), torch.empty(0, dtype=torch.long)
    scaling = (samples.mean, samples.std) if samples.kind == "image" else ((), ())
    return Dataset(name, samples.kind, x, y, x, y, labels, *scaling, form=samples.images)


def _sample_form(samples: Samples, dataset: Dataset, settings: Settings) -> SampleForm:
    """Describes the parties' samples as far as the server knows them.

    It does not know the columns of tables and how each party standardises them.

    Args:
        samples: The form of the parties' samples.
        dataset: A dataset of that form.
        settings: The settings of the run.
    """
    if samples.images is not None:
        scaling = agreed_scaling(settings.model_dump(), samples.mean, samples.std)
        if scaling is not None or settings.features == "unit":
            mean, scale = scaling.plain() if scaling is not None else ((), ())
            return replace(samples.images, resized=True, feature_mean=mean, feature_scale=scale)
        return VectorForm(samples.shape[0], by_parties=True)
    if samples.embedder is None or embeds_images(samples.embedder.partition(" (")[0]):
        # Parties of an earlier version tell of embedded images the vectors alone.
        form = dataset.sample_form
        return replace(form, by_parties=True) if isinstance(form, VectorForm) else form
    embedder = EMBEDDERS.get(samples.embedder, Embedder(samples.embedder))
    return TextForm(embedder, samples.shape[0])


def _gate(settings: Settings, dataset: Dataset, vocabulary: Vocabulary) -> Gate:
    """Makes the gate that checks every answer of a party.

    Args:
        settings: The settings of the run, resolved.
        dataset: A dataset of the form of the parties' samples.
        vocabulary: The labels that are known, also those that come later.
    """
    statistics = settings.batchnorm == "average"
    return Gate(
        travelling(build_model(settings, dataset), statistics),
        classes=lambda: len(vocabulary.labels),
        batch_size=settings.batch_size,
        most_labels=MOST_NEW_LABELS,
        most_brought=MOST_LABELS,
        stretch=settings.burn_in + settings.q,
        most_tasks=MOST_TASKS if settings.streams else settings.tasks,
        class_counts=needs_class_counts(settings),
        extras=chosen_method(settings).generative is not None,
        most_remembered=settings.memory,
        masked=settings.secure_aggregation,
    )


def _summing(
    settings: Settings,
    dataset: Dataset,
    vocabulary: Vocabulary,
    run: str,
    federation: Federation,
    hooks: Hooks,
) -> ServerSum | None:
    """Makes the server's side of secure sums; None: the run has none.

    Args:
        settings: The settings of the run, resolved.
        dataset: A dataset of the form of the parties' samples.
        vocabulary: The labels that are known, also those that come later.
        run: The name of the run.
        federation: The federation, with the names of its parties.
        hooks: How to tell the user.
    """
    if not settings.secure_aggregation:
        return None
    return ServerSum(
        run,
        travelling(build_model(settings, dataset), settings.batchnorm == "average"),
        federation.parties,
        classes=lambda: len(vocabulary.labels),
        seed=settings.seed,
        fewest=fewest_in_sum(settings),
        tell=hooks.tell,
    )


def _check_memory(
    settings: Settings, labels: Sequence[str], introductions: Mapping[str, Introduction]
) -> None:
    """Raises an error if there are more labels than a memory has places; says who brings them."""
    if len(labels) <= settings.memory:
        return
    brought = ", ".join(f"{name} {len(said.labels)}" for name, said in introductions.items())
    raise OfclError(
        f"memory = {settings.memory} is smaller than the number of classes: there are "
        f"{len(labels)} ({brought}). Set memory to more, or ask whose labels these are"
    )


def _watch(
    server: Server, courier: Courier, tell: Callable[[str], None], *, back: bool
) -> Callable[[Sequence[float]], None]:
    """Makes the function that looks at every exchange, and goes back if the model is spoilt.

    Args:
        server: The server with the global model and the earlier ones.
        courier: Knows which parties have failed.
        tell: Is given each line for the user.
        back: Whether to go back at the first exchange, whatever the parties say.
    """
    wanted = back

    def watch(losses: Sequence[float]) -> None:
        nonlocal wanted
        failed = not losses and courier.all_failed
        spoilt = server.earlier is not None and server.earlier.spoilt(losses, failed)
        if not spoilt and not wanted:
            return
        wanted = False
        rounds = server.go_back()
        if rounds is None:
            tell("warning: the global model may be spoilt, and no earlier one is kept")
        else:
            why = "as parties fail with it, or lose" if spoilt else "as you asked"
            tell(f"the global model is that of round {rounds} again, {why}")

    return watch
