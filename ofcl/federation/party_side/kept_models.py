"""The models that a party keeps for itself: at the end of each task, and when the run is over.

They are made from what the party has learned and received. Nothing of this leaves the party.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ofcl.assembly.make_bundle import describe, shareable, validation_curves
from ofcl.assembly.versions import made_with
from ofcl.bundle.bundle_files import Bundle
from ofcl.bundle.description import Learned
from ofcl.bundle.open_bundle import FINAL, OF_TASKS
from ofcl.client import Client
from ofcl.compute.devices import all_to_device
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.engines.messages import Request
from ofcl.engines.rejection import Rejected, check_tensors
from ofcl.errors import OfclError
from ofcl.federation.party_side.benefit import Comparison, ModelName
from ofcl.federation.party_side.helps_file import HELPS, note_new_samples, read_helps, write_helps
from ofcl.federation.party_side.model_files import delete_models, write_model
from ofcl.federation.party_side.own_source import OwnClient
from ofcl.methods.accompanied import Accompanied
from ofcl.models.head import width
from ofcl.privacy import epsilon
from ofcl.state import State, Tensors, copied
from ofcl.storage.encryption import Seal
from ofcl.update import frozen, network_alone, travelling

OF_STREAMS = 2  # models of tasks, and of rounds, that are kept of a stream, which may have no end

Keep = Literal["global", "own"]
"""Which model a party keeps as the main one of its folder."""


class KeptModels:
    """Keeps the models of a party's runs (a `Keeper`).

    Args:
        folder: The party's folder.
        federation: The name of the federation, by which the models are called.
        keep: Which model is the main one of the folder.
        seal: Encrypts the models; None: they are saved unencrypted.
        tell: Is given each line of the party's log.
    """

    def __init__(
        self,
        folder: Path,
        federation: str,
        *,
        keep: Keep = "global",
        seal: Seal | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._folder, self._federation, self._keep = folder, federation, keep
        self._seal, self._tell = seal, tell
        self._learned = -1  # mini-batches after which the own model was noted
        self._own: Tensors = {}
        self._told_incomplete = ""  # the run of which the log says that `alone` is left out

    def begin(self, run: str, made: OwnClient, clients: int, vocabulary: Vocabulary) -> None:
        """Takes over the client of a run, at its beginning or after the process was started again.

        Args:
            run: The name of the run.
            made: The client, and how its samples are read.
            clients: The number of parties.
            vocabulary: The labels, which grow.
        """
        self._run, self._made, self._clients, self._vocabulary = run, made, clients, vocabulary

    def arrived(self, request: Request, client: Client) -> None:
        """Checks an arriving global model; keeps the party's own model, which it may replace.

        Args:
            request: The server's request.
            client: The client as it was after the last request.

        Raises:
            OfclError: If the model is not one of this run; then nothing is done with it.
        """
        ours = travelling(client.model, statistics=True)
        try:
            check_tensors(request.model, ours, len(self._vocabulary.labels))
        except Rejected as error:
            raise OfclError(f"the server's model was refused: {error}") from None
        # If it was noted after as many mini-batches, the client has taken a global model since.
        if (client.between_tasks or client.waiting) and client.learned != self._learned:
            self._learned, self._own = client.learned, client.own_model()
        if self._made.settings.streams and "take" in request.steps and client.learned:
            self._save_round(request, client)
            note_new_samples(
                self._folder / HELPS, self._run, self._keep, client.learner, self._tell
            )

    def _save_round(self, request: Request, client: Client) -> None:
        """Saves the kept model in the middle of a stream, which may have no end; it is not tested.

        Args:
            request: The request with the global model of a round.
            client: The client, which has not taken that model yet.
        """
        model, number = self._models(request, client)[self._keep], client.sender.released
        try:
            with client.holding(model):
                means = self._prototypes(request, client, self._keep)
            bundle = self._bundle(client, self._keep, model, means, None, over=False)
            write_model(bundle, self._folder / OF_TASKS / f"round-{number}", self._seal)
        except (OfclError, OSError) as error:  # the run goes on without
            self._tell(f"error: the model could not be saved: {error}")
            return
        newest = range(number - OF_STREAMS + 1, number + 1)
        delete_models(self._folder, "round", lambda other: other not in newest)

    def task_ended(self, request: Request, client: Client) -> None:
        """Saves the models at the end of a task, and after the last one those of the run.

        Args:
            request: The request that is being followed, with the global model.
            client: The client, which has just been tested.
        """
        # Without a closing round, others may go on: the final model comes later (`run_over`).
        self._save_all(request, client, over=self._made.settings.closing_round != "none")

    def run_over(self, request: Request, client: Client) -> None:
        """Saves the models once more when the final global model has come.

        Args:
            request: The request, with the final global model.
            client: The client, which has finished.
        """
        self._save_all(request, client, over=True)

    def state(self, client: Client) -> State:
        """Gives the party's own model if the client has another one by now, for a checkpoint.

        Args:
            client: The client.
        """
        if client.learned != self._learned:
            return {}
        return {"learned": self._learned, "own": self._own}

    def load_state(self, state: State, client: Client) -> None:
        """Puts back what `state` gave.

        Args:
            state: What `state` gave; empty: there is nothing to put back.
            client: The client, restored already.
        """
        device = next(client.model.parameters()).device
        self._learned = int(state.get("learned", -1))
        self._own = all_to_device(state.get("own", {}), device)

    def _save_all(self, request: Request, client: Client, *, over: bool) -> None:
        """Tests and saves the models, and tells the user of them.

        Args:
            request: The request with the global model.
            client: The client.
            over: Whether the run is over if the client has finished.
        """
        models, means, predictions = self._models(request, client), {}, {}
        for name, model in models.items():
            with client.holding(model):
                means[name] = self._prototypes(request, client, name)
                predictions[name] = client.test(means[name])
        compared = Comparison.of(predictions)
        task, ended = len(client.classes_of_tasks), client.finished
        try:
            bundles = {
                name: self._bundle(client, name, model, means[name], compared, over=over and ended)
                for name, model in models.items()
            }
            self._write(bundles, client, task)
        except (OfclError, OSError) as error:  # the run goes on without
            self._tell(f"error: the models could not be saved: {error}")
            return
        self._note(compared, task, over=over and ended)
        self._tell(self._in_words(task, ended, over))
        for line in compared.in_words(self._keep):
            self._tell(line)

    def _models(self, request: Request, client: Client) -> dict[ModelName, Tensors]:
        """Collects the models: all have BatchNorm's statistics, and may be on a device."""
        device = next(client.model.parameters()).device
        own = self.own(client)
        received = all_to_device(request.model, device)
        models: dict[ModelName, Tensors] = {"global": client.global_model(received), "own": own}
        learner = client.learner
        if not isinstance(learner, Accompanied):
            return models
        if learner.complete:
            models["alone"] = copied(travelling(learner.model_alone, statistics=True))
        elif self._told_incomplete != self._run:
            self._told_incomplete = self._run
            self._tell("--local-too is left out of this run, which began without it")
        return models

    def own(self, client: Client) -> Tensors:
        """Gives the party's own model: the one after its last mini-batch.

        Args:
            client: The client, which may have taken the global model since.
        """
        return self._own if client.learned == self._learned else client.own_model()

    def _prototypes(self, request: Request, client: Client, name: ModelName) -> Tensors:
        """Finds the prototypes by which a model predicts; the client's model has its tensors now.

        Those of the global model may have come from the server. All others are made of the memory
        of the model's learner.

        Args:
            request: The request, with what the server hands out.
            client: The client.
            name: Which model it is.
        """
        device, learner = next(client.model.parameters()).device, client.learner
        if name == "alone" and isinstance(learner, Accompanied):
            return client.prototypes(learner.memory_alone, {})
        handed = all_to_device(request.handed, device) if name == "global" else {}
        return client.prototypes(learner.memory, handed)

    def _bundle(
        self,
        client: Client,
        name: ModelName,
        model: Tensors,
        means: Tensors,
        compared: Comparison | None,
        *,
        over: bool,
    ) -> Bundle:
        """Makes the bundle of a model.

        Args:
            client: The client.
            name: Which model it is.
            model: The tensors of the model.
            means: The prototypes by which it predicts; {}: it predicts by its head.
            compared: The test of the models; None: they were not tested.
            over: Whether the run is over.
        """
        settings, outputs = self._made.settings, width(model)
        labels = self._vocabulary.labels[:outputs]
        cost = None
        if settings.dp_clip is not None and name != "alone":
            cost = epsilon(client.sender.released, settings.dp_noise, settings.dp_delta)
        learned = Learned(
            settings=shareable(settings),
            data=self._federation,
            fingerprint="",
            clients=1 if name == "alone" else self._clients,
            rounds=0
            if name == "alone"
            else client.sender.released,  # that the party has sent updates for
            tasks=tuple(
                tuple(labels[c] for c in task if c < len(labels))
                for task in client.classes_of_tasks
            ),
            finished=over,
            metrics={
                "global_A": compared.mean_over_tasks(name) if compared else None,
                **(compared.for_card() if compared else {}),
            },
            epsilon=cost,
            made_with=made_with(),
            licence=settings.licence,
        )
        samples = self._made.sample_form()
        # A class may have come after the last round: the global model has no output for it yet.
        means = {key: value[:outputs] for key, value in means.items()}
        description = describe(
            settings,
            labels,
            samples,
            outputs=outputs,
            classifier="nearest-mean" if means else "head",
            learned=learned,
        )
        whole = network_alone(model) | means | network_alone(frozen(client.model))
        bundle = Bundle(description, {key: value.cpu() for key, value in whole.items()})
        if not client.finished or name != self._keep:
            return bundle
        curves = validation_curves(bundle, [client])
        return bundle._replace(description=replace(description, abstention=curves))

    def _write(self, bundles: dict[ModelName, Bundle], client: Client, task: int) -> None:
        """Writes the kept model of a task; if the client has finished, all models of the run.

        Args:
            bundles: The bundles of the models.
            client: The client.
            task: The number of the task that has ended, from 1.
        """
        models = self._folder / OF_TASKS
        write_model(bundles[self._keep], models / f"task-{task}", self._seal)
        delete_models(self._folder, "task", lambda number: number > task)  # of an earlier run
        if self._made.settings.streams:
            delete_models(self._folder, "task", lambda number: number <= task - OF_STREAMS)
        if client.finished:
            for name, bundle in bundles.items():
                write_model(bundle, models / name, self._seal)
            write_model(bundles[self._keep], self._folder / FINAL, self._seal)

    def _note(self, compared: Comparison, task: int, *, over: bool) -> None:
        """Writes the comparison of this task, with those of the tasks before it, to `helps.json`.

        Args:
            compared: The test of the models.
            task: The number of the task that has ended, from 1.
            over: Whether the run is over.
        """
        path = self._folder / HELPS
        noted = read_helps(path, self._run)
        rows = [row for row in noted["tasks"] if row["task"] < task]
        rows.append({"task": task, **compared.to_json(self._keep)})
        new = {"new": noted["new"]} if "new" in noted else {}
        content = {"run": self._run, "over": over, "kept": self._keep, "tasks": rows, **new}
        write_helps(path, content)

    def _in_words(self, task: int, ended: bool, over: bool) -> str:
        """Says in a line for the log what is saved, and how to use it.

        Args:
            task: The number of the task that has ended, from 1.
            ended: Whether the client has finished.
            over: Whether the run is over if the client has finished.
        """
        model = "the global model" if self._keep == "global" else "your own model"
        if not ended:
            return f"task {task} has ended: {model} is saved in '{self._folder / OF_TASKS}'"
        key = " --key-file KEY" if self._seal is not None else ""
        use = f"'{self._folder}' has {model}: ofcl predict {self._folder} INPUT{key}"
        if over:
            return f"the run is over; {use}"
        later = "the final one comes when all parties have ended, if this process still runs"
        return f"your data have ended; {use}; {later}"
