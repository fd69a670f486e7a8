"""Prepares a run between parties, at the server.

The server has no data. It builds the model from the form of samples that the parties describe, and
decides which class each label is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ofcl.assembly.checks import check_run, check_settings
from ofcl.assembly.describe_backbone import describe_backbone
from ofcl.assembly.make_client import fewest_in_sum
from ofcl.assembly.make_server import build_coded_models, build_server
from ofcl.assembly.participants import Participants, form_of
from ofcl.assembly.resolve import resolve
from ofcl.assembly.stages import Hooks, Prepared
from ofcl.data.live.form import Pattern
from ofcl.engines.changes import Changes
from ofcl.engines.quarantine import Quarantine
from ofcl.engines.remote import RemoteEngine
from ofcl.federation.server_side.agreement import (
    Agreement,
    empty_dataset,
    make_agreement,
    sample_form,
)
from ofcl.federation.server_side.checks_of_answers import (
    make_cross_test,
    make_gate,
    make_summing,
    make_watch,
)
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.server_side.label_space import LabelSpace
from ofcl.federation.server_side.settings_of_run import (
    fewest_parties,
    for_those_present,
    settled,
)
from ofcl.federation.setup.folders import Federation
from ofcl.federation.terms import Introduction, Terms, travelling_settings
from ofcl.federation.transport import Transport
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.version import __version__


class FederationStage:
    """A stage whose clients are the parties of a federation, reached by a transport.

    Args:
        federation: The federation.
        folder: The folder of the federation, named in messages that say which command to type.
        transport: Carries messages to the parties.
        readmitted: Names of parties that are let in again after a quarantine.
        back: Whether a resumed run goes back to an earlier global model at once.
        aliases: Labels by other spellings that parties use (`alias_table`).
        introduced: Is given the introductions by which a new run begins.
        orders: Gives the orders to change settings of the run so far (`orders.py`).
    """

    def __init__(
        self,
        federation: Federation,
        folder: Path,
        transport: Transport,
        *,
        readmitted: Collection[str] = (),
        back: bool = False,
        aliases: Mapping[str, str] | None = None,
        introduced: Callable[[Mapping[int, Introduction]], None] = lambda introductions: None,
        orders: Callable[[], Sequence[State]] = tuple,
    ) -> None:
        self._introduced, self._orders = introduced, orders
        self._federation, self._folder, self._transport = federation, folder, transport
        self._readmitted, self._back, self._aliases = readmitted, back, aliases or {}

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
            return Terms(
                announced,
                settings.clients,
                labels,
                base,
                agreement.samples,
                agreement.aliases,
                version=__version__,
            )

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
            self._agree(settings, courier, hooks)
            if known is None
            else Agreement.of_run(known, self._aliases)
        )
        settings = settled(settings, agreement)
        # Heads start without the classes that came later: they grow with a checkpoint, or a round.
        first_labels = agreement.labels[: agreement.base]
        dataset = empty_dataset(self._federation.name, agreement.samples, first_labels)
        settings = resolve(settings, dataset)
        check_settings(settings)  # now that it is known whether parties have streams
        check_run(settings, dataset, len(first_labels))
        vocabulary = LabelSpace(agreement.labels, hooks.tell, agreement.aliases)
        rounds = for_those_present(settings, self._federation, hooks.tell, new=known is None)
        samples, names = agreement.samples, self._federation.parties

        def report(client: int, what: str) -> None:
            hooks.tell(f"{names[client]}: {what}")

        server = build_server(rounds, dataset, report)
        participants = Participants(
            settings=settings,
            clients=[],
            server=server,
            backbone=describe_backbone(settings, server),
            vocabulary=vocabulary,
            warnings=[],
            batches=None,
            sample_form=lambda: sample_form(samples, dataset, settings),
            pattern=Pattern("text" if samples.kind == "tokens" else samples.kind, samples.shape),
            form=form_of(dataset),
            names=names,
            agreed={
                "run": agreement.run,
                "base": agreement.base,
                "samples": asdict(samples),
                "aliases": dict(agreement.aliases),
            },
        )
        gate = make_gate(settings, dataset, vocabulary)

        def changed(values: State) -> None:
            gate.widen(settings.burn_in + int(values.get("q", settings.q)))

        engine = RemoteEngine(
            settings.clients,
            courier,
            run=agreement.run,
            min_clients=fewest_parties(settings, self._federation),
            gone=self._federation.gone,
            gate=gate,
            vocabulary=vocabulary,
            names=names,
            summing=make_summing(settings, dataset, vocabulary, agreement.run, names, hooks.tell),
            coded=build_coded_models(settings, participants.server),
            # After a closing round nobody learns on: every party has the final model.
            hand_out=courier.hand_out if settings.closing_round == "none" else None,
            quarantine=Quarantine(agreement.odd),
            readmitted=[names.index(name) for name in self._readmitted],
            watch=make_watch(participants.server, courier, hooks.tell, back=self._back),
            handed=participants.server.handing(),
            changes=Changes(self._orders, changed, hooks.tell),
            failed=courier.failed,
            cross=make_cross_test(settings, courier, gate, names, hooks.tell),
            save=hooks.save,
            tell=hooks.tell,
        )
        return Prepared(participants, engine)

    def _agree(self, settings: Settings, courier: Courier, hooks: Hooks) -> Agreement:
        """Asks the parties for their introductions, and makes the agreement from these."""
        fewest = fewest_parties(settings, self._federation)
        said = courier.introductions(fewest)
        self._introduced(said)
        parties = self._federation.parties
        return make_agreement(said, parties, settings, fewest, hooks.tell, self._aliases)

    def resume_command(self, directory: Path) -> str:
        """Gives the command that resumes the stopped run of this federation.

        Args:
            directory: Not used: the federation knows its newest run.
        """
        return f"ofcl federation start {self._folder} --resume"
