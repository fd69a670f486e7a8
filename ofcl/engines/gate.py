"""Checks the answers of clients before anything is done with them: the server trusts no client.

An answer is rejected as a whole if it is of another run, exchange or client, if its tensors have
other names, shapes or types, if numbers are not finite, or if counts are impossible. The round then
goes on without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import torch

from ofcl.engines.messages import Reply, Request, Status, unpack_reply
from ofcl.engines.rejection import (
    Rejected,
    check_confusions,
    check_count,
    check_feature_sums,
    check_finite,
    check_hits,
    check_label,
    check_same,
    check_tensors,
)
from ofcl.events import Changed, CrossTested, Evaluated, Event, Learned, Round, TaskEnded
from ofcl.models.head import BIAS, FEWEST_CLASSES, WEIGHT
from ofcl.state import State, Tensors
from ofcl.update import Update, network_alone

MOST_EVENTS = 1000  # events in one answer
MOST_CELLS = 200_000  # of confusion matrices in one answer


class Gate:
    """Lets possible answers pass, and rejects the others.

    Args:
        model: The tensors of a model. Those of an update must have the same names, types and
            shapes; only the head of an update may have any number of outputs up to `classes`.
        classes: Gives the number of classes that are known now.
        batch_size: Samples in a mini-batch: a client cannot have more samples than this times the
            mini-batches that it has learned.
        most_samples: The most samples that a client may have of one task.
        most_labels: The most new labels that a client may name at once.
        most_tasks: The most tasks that a client may have.
        most_brought: The most new labels that a client may name in the whole run.
        stretch: The most mini-batches that a client learns between two communication points of a
            task; None: any number.
        class_counts: Whether an update may hold counts of samples by class.
        extras: Whether an update must hold tensors besides the model.
        class_lists: Whether these must include the classes of the client's task (`now`).
        most_remembered: The most samples that a client may remember; surveys tell their features.
        event_types: The types of events that a client may send.
        masked: Whether updates come by secure sums alone (`ofcl.secure_sum`), never in a reply.
        coded: Whether updates may come in coded form, too.
    """

    def __init__(
        self,
        model: Tensors,
        *,
        classes: Callable[[], int],
        batch_size: int,
        most_samples: int = 10**9,
        most_labels: int = 0,
        most_tasks: int,
        most_brought: int = 10**9,
        stretch: int | None = None,
        class_counts: bool = False,
        extras: bool = False,
        class_lists: bool = True,
        most_remembered: int = 10**9,
        event_types: tuple[type[Event], ...] = (Learned, Evaluated),
        masked: bool = False,
        coded: bool = False,
    ) -> None:
        self._coded = coded
        self._model, self._known_classes, self._most_samples = model, classes, most_samples
        self._batch_size, self._most_labels = batch_size, most_labels
        self._class_counts, self._extras = class_counts, extras
        self._class_lists = class_lists
        self._most_tasks, self._event_types = most_tasks, event_types
        self._most_remembered, self._masked = most_remembered, masked
        self._stretch, self._most_brought = stretch, most_brought
        self._brought: dict[int, set[str]] = {}  # the new labels of each client so far

    def widen(self, stretch: int) -> None:
        """Lets clients learn more mini-batches between two communication points than before.

        Args:
            stretch: The most mini-batches that a client learns between two of them from now on.
        """
        if self._stretch is not None:
            self._stretch = max(self._stretch, stretch)

    @property
    def _classes(self) -> int:
        """The number of outputs that a head may have now."""
        return max(self._known_classes(), FEWEST_CLASSES)

    def passed(self, state: State, request: Request, client: int) -> Reply:
        """Checks the answer of a client, and unpacks it.

        Args:
            state: The answer, as the client sent it.
            request: The request that was sent to the client.
            client: The number of the client.

        Returns:
            The reply.

        Raises:
            Rejected: If the answer cannot be right; the error says why.
        """
        try:
            _check_sizes(state)  # before anything is read
            return self._checked(unpack_reply(state), request, client)
        except Rejected:
            raise
        except Exception as error:  # something is of another type than anybody could expect
            raise Rejected(f"it cannot be read ({type(error).__name__}: {error})") from None

    def _checked(self, reply: Reply, request: Request, client: int) -> Reply:
        """Checks every field of a reply, and gives the reply back.

        Args:
            reply: The unpacked answer.
            request: The request that was sent to the client.
            client: The number of the client.

        Raises:
            Rejected: If a field cannot be right.
        """
        check_same("run", reply.run, request.run)
        check_same("exchange", reply.exchange, request.exchange)
        check_same("client", reply.client, client)
        if reply.status not in get_args(Status):
            raise Rejected(f"its status is {reply.status!r}")
        check_count("number of mini-batches", reply.learned, self._most_learned(reply.exchange))
        if not isinstance(reply.data, str) or len(reply.data) > 64:
            raise Rejected("the fingerprint of its data cannot be")
        check_count("number of updates", reply.released, reply.exchange)
        for event in reply.events:
            self._check_event(event, client)
        sends = reply.status in ("waiting", "between-tasks") and not self._masked
        if sends != (reply.update is not None):
            raise Rejected(
                f"its status is {reply.status}, and {'no' if sends else 'an'} update came"
            )
        surveyed = "survey" in request.steps
        if surveyed and reply.status not in ("between-tasks", "asking"):
            raise Rejected(f"it was asked for a survey, and its status is {reply.status}")
        if reply.update is not None:
            if surveyed:
                self._check_survey(reply.update, client)
            else:
                self._check_update(reply.update, client)
            check_count("number of samples", reply.update.samples, reply.learned * self._batch_size)
        self._check_labels(reply.labels, client)
        return reply

    def _most_learned(self, exchange: int) -> int:
        """Gives the most mini-batches that a client can have learned by now.

        It learns one stretch in every exchange, and one more where a task ends without a round.
        """
        if self._stretch is None:
            return 10**12
        return (exchange + self._most_tasks) * self._stretch

    def _check_labels(self, labels: Any, client: int) -> None:
        """Rejects new labels that are too many, now or in all, or cannot be labels."""
        if not isinstance(labels, list) or len(labels) > self._most_labels:
            raise Rejected(f"it asks for places of labels; expected at most {self._most_labels}")
        for label in labels:
            check_label(label)
        brought = self._brought.get(client, set()) | set(labels)
        if len(brought) > self._most_brought:
            raise Rejected(
                f"it has named {len(brought)} new labels; expected {self._most_brought} at most"
            )
        self._brought[client] = brought

    def _check_update(self, update: Update, client: int) -> None:
        """Checks that an update is the client's, and that its tensors and counts can be right.

        Args:
            update: The update in the reply.
            client: The number of the client that must have made it.

        Raises:
            Rejected: If it is another client's, if tensors or counts cannot be right, or if
                something is missing or came that nobody asked for.
        """
        check_same("client of the update", update.client, client)
        check_count("number of samples", update.samples, self._most_samples)
        if update.coded and not self._coded:
            raise Rejected("a coded update came, which nobody asked for")
        if update.classes and not self._class_counts:
            raise Rejected("class counts came, which nobody asked for")
        for place, count in update.classes.items():
            check_count("place of a class", place, self._classes - 1)
            check_count("number of samples of a class", count, update.samples, least=1)
        check_tensors(update.state, self._model, self._classes)
        if update.extras and not self._extras:
            raise Rejected(f"'{next(iter(update.extras))}' came, which nobody asked for")
        if self._extras and not update.extras:
            raise Rejected("what the method sends besides the model is missing")
        for name, tensor in update.extras.items():
            check_finite(name, tensor)
        if update.extras:
            self._check_classes(update.extras)

    def check_model(self, model: Tensors) -> None:
        """Rejects a client's network that comes in another way than as an update.

        Args:
            model: The tensors that came; none of a method's own (`COMPANION`) is among them.

        Raises:
            Rejected: If names, types or shapes are others, or values are not finite.
        """
        check_tensors(model, network_alone(self._model), self._classes)

    def _check_survey(self, survey: Update, client: int) -> None:
        """Rejects a survey whose sums of features cannot be right, or that has more than these.

        Args:
            survey: The survey in the reply (`Client.survey`).
            client: The number of the client that must have made it.
        """
        check_same("client of the survey", survey.client, client)
        check_count("number of samples", survey.samples, self._most_samples)
        if survey.state or survey.classes:
            raise Rejected("its survey has more than features")
        most = max(self._classes, len(self._model[BIAS]))
        width = self._model[WEIGHT].shape[1]
        check_feature_sums(survey.extras, most, width, self._most_remembered)

    def _check_classes(self, extras: Tensors) -> None:
        """Rejects extras whose lists of current (`now`) and past classes (`past`) are wrong."""
        for name in ("now", "past"):
            classes = extras.get(name, torch.empty(0, dtype=torch.long))
            known = torch.arange(self._classes)
            if (
                classes.dtype != torch.long
                or classes.dim() != 1
                or (not torch.isin(classes, known).all())
            ):
                raise Rejected(f"'{name}' is not a list of classes")
        if self._class_lists and "now" not in extras:
            raise Rejected("the classes of its task are missing")

    def _check_event(self, event: Event, client: int) -> None:
        """Rejects an event that this client cannot have, or whose numbers are impossible."""
        if not isinstance(event, self._event_types) or isinstance(
            event, Round | TaskEnded | Changed | CrossTested
        ):
            raise Rejected(f"it tells of {type(event).__name__}, which it cannot")
        check_same("client of an event", event.client, client)
        check_count("task", getattr(event, "task", 0), self._most_tasks - 1)
        if isinstance(event, Learned):
            check_count("number of mini-batches", event.batches, 10**6)
            check_count("number of samples", event.samples, event.batches * self._batch_size)
            check_count("number of right predictions", event.correct, event.samples)
            if type(event.loss) is not float or not math.isfinite(event.loss):
                raise Rejected(f"its loss is {event.loss!r}")
        if isinstance(event, Evaluated):
            for hits in (event.test, event.validation, event.global_test):
                check_hits(hits, self._classes + 1)
                if len(hits) > event.task + 1:
                    raise Rejected("it was tested on tasks that it has not come to")
            check_confusions(event.confusions, self._classes)


def _check_sizes(state: State) -> None:
    """Rejects an answer with more than anybody needs, before any of it is read."""
    events = state.get("events")
    if isinstance(events, list) and len(events) > MOST_EVENTS:
        raise Rejected(f"it tells of {len(events)} events; expected {MOST_EVENTS} at most")
    told = events if isinstance(events, list) else []
    tests = [event.get("confusions") for event in told if isinstance(event, dict)]
    cells = sum(len(confusions) for confusions in tests if isinstance(confusions, list))
    if cells > MOST_CELLS:
        raise Rejected(f"its tests have {cells} confusions; expected {MOST_CELLS} at most")
