"""The engine for clients in other processes: on a cluster, or at other organisations.

The loop over rounds (`algorithm.py`) and the clients are the same as with the local engine. Between
them are requests and replies (`messages.py`), which a `Channel` carries. A client that does not
answer in time is absent: the round goes on without it, and later it continues from the global
model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from ofcl.compute.devices import all_to_device
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.engines.changes import Changes
from ofcl.engines.channel import ArrivalChannel, Channel
from ofcl.engines.coded_models import CodedModels
from ofcl.engines.cross_test import CrossTest
from ofcl.engines.gate import Gate
from ofcl.engines.in_flight import InFlight
from ofcl.engines.intake import Intake
from ofcl.engines.messages import (
    Reply,
    Request,
    Step,
    pack_update,
    unpack_update,
)
from ofcl.engines.quarantine import Quarantine
from ofcl.engines.standing import Standing
from ofcl.errors import OfclError
from ofcl.events import Appeared, Event, Learned, from_json, to_json
from ofcl.models.head import width
from ofcl.secure_sum.server_sum import ServerSum
from ofcl.state import State, Tensors
from ofcl.update import Update


class RemoteEngine:
    """Runs clients in other processes, over a channel.

    Args:
        clients: The number of clients; they are numbered from 0.
        channel: Carries requests to the clients.
        run: The name of the run, which every request carries.
        min_clients: A round needs so many clients; with fewer, the engine asks the absent ones
            again, and tells the user whom it waits for.
        gone: Numbers of clients that are not asked any more, as if their streams had ended.
        gate: Checks the answers; a rejected one counts as no answer. None: answers are trusted.
        vocabulary: Gives new labels of clients their places; None: no new labels are expected.
        names: The names of the clients, for the user; default: "client 0" and so on.
        hand_out: Sends requests to those clients that can be reached, like `Channel.exchange`, but
            waits only a short time. With it, every client is sent the final global model when all
            have finished. None: nothing is sent then.
        summing: Leads secure sums: clients then send their updates in no other way. None: clients
            send their updates with their answers.
        coded: Lets models and updates travel in fewer bytes; None: they travel as they are.
        quarantine: Leaves out clients whose answers are rejected again and again; None: they are
            asked for ever.
        readmitted: Clients that are let in again although a checkpoint has them in quarantine.
        watch: Is given, after every exchange, the mean losses that clients tell of it.
        handed: With buffered rounds (`ofcl.buffered`): is told the number of each client that is to
            take the global model. None: rounds wait for clients.
        changes: Takes orders to change settings, between rounds; None: settings stay as they are.
        failed: Lists the clients that could not follow their last requests; buffered rounds tell
            these of changed settings at once.
        cross: Leads cross-site validation when all have finished; None: there is none.
        save: Saves a checkpoint; called before every exchange. After a crash the engine then asks
            the same again, and the clients give the same answers.
        tell: Is given each line for the user.
    """

    def __init__(
        self,
        clients: int,
        channel: Channel,
        *,
        run: str,
        min_clients: int = 1,
        gone: Collection[int] = (),
        gate: Gate | None = None,
        vocabulary: Vocabulary | None = None,
        names: Sequence[str] = (),
        hand_out: Callable[[Mapping[int, Request]], Mapping[int, State]] | None = None,
        summing: ServerSum | None = None,
        coded: CodedModels | None = None,
        quarantine: Quarantine | None = None,
        readmitted: Collection[int] = (),
        watch: Callable[[Sequence[float]], None] = lambda losses: None,
        handed: Callable[[int], None] | None = None,
        changes: Changes | None = None,
        failed: Callable[[], Collection[int]] = tuple,
        cross: CrossTest | None = None,
        save: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self.clients, self._channel = clients, channel
        self._min_clients, self._save, self._tell = min_clients, save, tell
        self._vocabulary, self._hand_out, self._summing = vocabulary, hand_out, summing
        self._told_alone = False
        self._over = False  # whether the final model has been handed out
        self._names = list(names) or [f"client {number}" for number in range(clients)]
        self._standing = Standing(run, clients)
        self._intake = Intake(self._names, gate, quarantine, tell, coded)
        self._updates: dict[int, Update] = {}  # of the clients that wait
        self._device = torch.device("cpu")  # the server's
        self._model: Tensors = {}  # the global model
        self._events: list[Event] = []  # that have not been yielded yet
        self._released = 0
        self._waited_for: list[int] = []  # the absent clients that the user was last told of
        self._gone = [number for number in gone if number < clients]
        self._readmitted, self._watch, self._coded = readmitted, watch, coded
        self._changes, self._failed, self._cross = changes or Changes(tuple), failed, cross
        self._between_rounds = True  # whether orders may be taken
        self._losses: dict[int, float] = {}  # buffered rounds: the newest of each client
        self._in_flight = self._flights(handed) if handed is not None else None
        self._leave_out_gone()

    def learn(self, global_model: Tensors) -> Iterator[Event]:
        """Lets clients learn up to their next communication point, or to their streams' end.

        Returns when every client has come so far, or when enough clients for a round wait; with
        buffered rounds, one client is enough. Until then, clients that do not answer are asked for
        the same again. Who has not answered by then goes on from the newest global model, in the
        next call; with buffered rounds, they go on meanwhile.

        Args:
            global_model: The global model, which every request carries.

        Yields:
            The events that the answers bring.
        """
        yield from self._take_events()
        self._device = next(iter(global_model.values())).device
        self._model = global_model
        yield from self._take_orders()
        if self._in_flight is not None:
            yield from self._arrivals(global_model, self._in_flight)
        else:
            yield from self._exchanges(global_model)
        if self._standing.all_finished:
            self._hand_out_final(global_model)
            yield from self._take_events()
            if self._cross is not None:
                yield from self._hold_cross_test(self._cross, global_model)

    def _take_orders(self) -> Iterator[Event]:
        """Takes orders to change settings if a round is over; yields their events.

        Not within a round: of two clients, one could have learned by the earlier values.
        """
        if not self._between_rounds:
            return
        self._between_rounds = False
        self._events += (orders := self._changes.take())
        self._standing.changed = self._changes.in_force
        if orders and self._in_flight is not None:
            self._in_flight.change(self._failed(), self._standing.changed)
        yield from self._take_events()

    def _exchanges(self, global_model: Tensors) -> Iterator[Event]:
        """Makes exchanges until clients have come as far as `learn` says; yields their events."""
        while learning := self._standing.at("learning"):
            absent = self._ask(learning, global_model)
            yield from self._take_events()
            # Clients whose streams have nothing now have answered, too: they are still learning,
            # and are asked again with the others.
            enough = len(self.waiting()) >= self._min_clients
            all_done = not absent and not self._standing.at("learning")
            if enough or all_done:
                self._waited_for = []
                return
            self._tell_absent(absent)
            # Too few for a round: an order may be what lets those go on that refuse the last one.
            self._between_rounds = True
            yield from self._take_orders()

    def _flights(self, handed: Callable[[int], None]) -> InFlight:
        """Makes what keeps the requests of buffered rounds."""
        if not isinstance(self._channel, ArrivalChannel):
            raise OfclError("rounds = 'buffered' needs a channel that waits for no client")
        return InFlight(self._channel, self._standing, self._intake, self._coded, handed)

    def _arrivals(self, global_model: Tensors, in_flight: InFlight) -> Iterator[Event]:
        """Lets clients learn, each at its own pace, until one has arrived; yields their events."""
        while learning := self._standing.at("learning"):
            in_flight.depart(learning, global_model)
            if in_flight.unsaved:
                self._save()
            before, wait = dict(global_model), not self.waiting()
            replies = in_flight.land(wait=wait)
            for reply in replies:
                self._note(reply)
                for loss in _loss_of(reply):
                    self._losses[reply.client] = loss
            if replies or wait:  # one client alone cannot say that a model is spoilt
                self._watch(list(self._losses.values()) if replies else [])
            if _is_another(global_model, before):
                in_flight.recall()
                self._losses = {}
            self._leave_out_gone()
            yield from self._take_events()
            if self.waiting():
                return
            self._between_rounds = True
            yield from self._take_orders()

    def next_arrival(self) -> int | None:
        """Gives the number of the client that has arrived first, of those that wait; None: none."""
        arrived = self._in_flight.arrived if self._in_flight is not None else []
        return next((k for k in arrived if self._standing.status[k] == "waiting"), None)

    def answer(self, global_model: Tensors, client: int) -> None:
        """Lets one client take the global model and learn on; its next request tells it so.

        Args:
            global_model: Not used here: `learn` sends it with the next request.
            client: The number of the client.
        """
        assert self._in_flight is not None
        self._in_flight.arrived = [k for k in self._in_flight.arrived if k != client]
        if self._standing.status[client] == "waiting":  # else it is gone
            self._go_on(client, "take")

    def _tell_absent(self, absent: list[int]) -> None:
        """Tells the user which clients are absent, unless it has told so last."""
        if absent and absent != self._waited_for:
            self._waited_for = absent
            self._tell(f"waiting for {', '.join(self._names[client] for client in absent)}")

    def _ask(
        self, clients: Sequence[int], global_model: Tensors, then: Sequence[Step] = ()
    ) -> list[int]:
        """Makes one exchange with some clients.

        Args:
            clients: The numbers of the clients.
            global_model: The global model, which every request carries.
            then: Further steps, after those that each client has still to take.

        Returns:
            The numbers of the clients that have not answered, or whose answers were rejected.
        """
        standing = self._standing
        alone = self._left_alone()
        requests = {
            client: standing.request(client, global_model, then, alone=alone) for client in clients
        }
        losses, absent = [], []
        for client, reply, silent in self._replies(requests, self._channel.exchange):
            if reply is not None:
                self._note(reply)
                losses += _loss_of(reply)
                continue
            absent.append(client)
            if silent:
                standing.unanswered(client, requests[client].exchange)
            else:  # the same answer would be rejected again
                standing.missed(client)
        before = dict(global_model)
        self._watch(losses)
        if _is_another(global_model, before):
            standing.moved_on()
        self._leave_out_gone()
        return [client for client in absent if standing.status[client] != "finished"]

    def _left_alone(self) -> bool:
        """Tells whether so many clients have finished that no round will follow; says so once."""
        left = [k for k in range(self.clients) if self._standing.status[k] != "finished"]
        alone = 0 < len(left) < min(self._min_clients, self.clients - len(self._gone))
        if alone and not self._told_alone:
            self._told_alone = True
            who = " and ".join(self._names[client] for client in left)
            self._tell(
                f"all others have finished: {who} learn{'s' * (len(left) == 1)} alone from now on, "
                f"and no round will follow (min_clients is {self._min_clients})"
            )
        return alone

    def _replies(
        self,
        requests: Mapping[int, Request],
        exchange: Callable[[Mapping[int, Request]], Mapping[int, State]],
    ) -> Iterator[tuple[int, Reply | None, bool]]:
        """Saves, makes an exchange, and gives each client's reply; None: it has sent no good one.

        Args:
            requests: The requests by the numbers of the clients.
            exchange: Sends them, and gives the answers.

        Yields:
            The number of a client, its reply, and whether it has sent nothing at all.
        """
        self._save()
        coded = self._coded
        shortened = coded.shortened if coded is not None else lambda client, request: request
        answers = exchange({k: shortened(k, request) for k, request in requests.items()})
        self._standing.exchange += 1
        for client, request in requests.items():
            reply = self._intake.read(answers.get(client), request, client)
            if coded is not None and reply is None:
                coded.missed(client)
            elif coded is not None and reply is not None:
                coded.note(reply, request)
            yield client, reply, client not in answers

    def _hand_out_final(self, model: Tensors) -> None:
        """Sends the final global model to clients that finished before the run was over.

        The request has no steps, so a client learns nothing more. Who cannot be reached keeps the
        model of its last request.

        Args:
            model: The final global model.
        """
        clients = [client for client in range(self.clients) if client not in self._gone]
        if self._hand_out is None or self._over or not clients:
            return
        requests = {client: self._standing.final_request(client, model) for client in clients}
        missed = []
        for client, reply, _ in self._replies(requests, self._hand_out):
            self._over = True
            if reply is None:
                missed.append(self._names[client])
            else:
                self._note(reply)
        if missed:
            self._tell(f"the final model has not reached {', '.join(missed)}")

    def _hold_cross_test(self, cross: CrossTest, model: Tensors) -> Iterator[Event]:
        """Holds cross-site validation, step by step; yields its events.

        Args:
            cross: Says whom to ask for what.
            model: The final global model.
        """
        while not cross.over:
            steps = cross.requests(model, {*self._gone, *self._intake.quarantined})
            requests = {k: self._standing.cross_request(k, *step) for k, step in steps.items()}
            for client, reply, _ in self._replies(requests, cross.exchange):
                try:
                    if reply is not None:
                        cross.take(reply)
                        self._note(reply)
                except OfclError as error:
                    self._intake.reject(client, error)
            self._events += cross.advance()
            yield from self._take_events()

    def _note(self, reply: Reply) -> None:
        """Notes what a reply says: the client's status, its events, labels and update."""
        self._standing.note(reply)
        self._released = max(self._released, reply.released)
        self._events += reply.events
        for label in reply.labels:
            if self._vocabulary is not None and label not in self._vocabulary:
                place = self._vocabulary.place(label)
                self._events.append(Appeared(reply.client, label, place))
        if reply.update is not None:
            self._updates[reply.client] = reply.update

    def _take_events(self) -> Iterator[Event]:
        """Yields events, each taken off the list first: a checkpoint saves those that are left."""
        while self._events:
            yield self._events.pop(0)

    def waiting(self) -> list[int]:
        """Lists the numbers of the clients that have reached a communication point."""
        return self._standing.at("waiting")

    def between_tasks(self) -> list[int]:
        """Lists the numbers of the clients that have ended a task and wait for all the others."""
        return self._standing.at("between-tasks")

    def updates(self, clients: Sequence[int]) -> list[Update]:
        """Gives the updates of some clients, in their order, on the server's device.

        With secure sums, it is one update: the weighted mean of those that have stayed to the end.

        Args:
            clients: The numbers of the clients.
        """
        if self._summing is not None:
            return [_to_device(mean, self._device) for mean in self._sum(clients, self._summing)]
        return [_to_device(self._updates[client], self._device) for client in clients]

    def _sum(self, clients: Sequence[int], summing: ServerSum) -> list[Update]:
        """Holds a secure sum; clients that are missing are asked again until there are enough.

        Args:
            clients: The numbers of the clients that take part.
            summing: Leads the sum.

        Returns:
            The mean of the updates as one update; empty if the sum could not be finished.
        """
        summing.begin(clients, width(self._model), self._model)
        while not summing.over:
            steps = {k: v for k, v in summing.requests().items() if k not in self._gone}
            absent = self._ask_sum(steps, summing) if steps else []
            before = len(steps)
            summing.advance(self._gone)
            if not summing.over and absent and len(absent) == before:
                self._tell_absent(absent)
        self._waited_for = []
        return summing.result()

    def _ask_sum(self, steps: Mapping[int, State], summing: ServerSum) -> list[int]:
        """Makes one exchange of a secure sum; gives the numbers of those that did not answer."""
        requests = {k: self._standing.sum_request(k, step) for k, step in steps.items()}
        absent = []
        for client, reply, _ in self._replies(requests, self._channel.exchange):
            try:
                if reply is not None:
                    summing.take(client, reply.sum)
                    self._note(reply)
                    continue
            except OfclError as error:
                self._intake.reject(client, error)
            absent.append(client)
        return absent

    def survey(self, global_model: Tensors, clients: Sequence[int]) -> list[Update]:
        """Asks clients that are `between_tasks` for the features of their memories.

        Those that are absent are asked again until as many have answered as a round needs.

        Args:
            global_model: The global model, which computes the features.
            clients: The numbers of the clients.

        Returns:
            The surveys of those that have answered, in their order, on the server's device.
        """
        while True:
            clients = [client for client in clients if client in self._updates]
            # An update of a model, which came before, has no extras.
            missing = [client for client in clients if not self._updates[client].extras]
            if len(clients) - len(missing) >= min(self._min_clients, len(clients)):
                break
            self._tell_absent(self._ask(missing, global_model, ["survey"]))
        self._waited_for = []
        return self.updates([client for client in clients if client not in missing])

    def receive(self, global_model: Tensors, clients: Sequence[int]) -> None:
        """Ends the communication point of all clients; the next requests tell them so.

        Args:
            global_model: Not used here: `learn` sends it with the next requests.
            clients: The numbers of the clients that are to take the global model. All other clients
                that wait are to go on with their own models.
        """
        self._standing.moved_on()
        for client in self.between_tasks():
            if client in clients:
                self._standing.next_step(client, "take")
        for client in self.waiting():
            self._go_on(client, "take" if client in clients else "go-on")

    def _go_on(self, client: int, step: Step) -> None:
        """Lets a client that waits take a step and learn on, with its next request."""
        self._standing.next_step(client, step)
        self._standing.status[client] = "learning"
        self._updates.pop(client, None)
        self._between_rounds = True

    def begin_task(self, global_model: Tensors, clients: Sequence[int], handed: Tensors) -> None:
        """Lets clients that are `between_tasks` go on; the next requests tell them so.

        Args:
            global_model: Not used here: `learn` sends it with the next requests.
            clients: The numbers of the clients that go on.
            handed: The tensors that the server's part of the method hands out for the next task;
                empty if the method has no such part.
        """
        self._standing.moved_on()
        self._standing.begin_task(clients, handed)
        self._between_rounds = True
        for client in clients:
            self._updates.pop(client, None)
        self._leave_out_gone()

    def released(self) -> int:
        """Gives the largest number of updates that any client has sent so far."""
        return self._released

    def close(self) -> None:
        """Closes the channel: no request will be sent any more."""
        self._channel.close()

    def state(self) -> State:
        """Gives the state of the exchanges, for a checkpoint; clients keep their own state."""
        return {
            **self._standing.state(),
            **self._intake.state(),
            "released": self._released,
            "updates": [pack_update(update) for update in self._updates.values()],
            "untold": [to_json(event) for event in self._events],
            "over": self._over,
            "changes": self._changes.state(),
            "between_rounds": self._between_rounds,
            "coded": self._coded.state() if self._coded is not None else {},
            "summing": self._summing.state() if self._summing is not None else None,
            "in_flight": self._in_flight.state() if self._in_flight is not None else {},
            "cross": self._cross.state() if self._cross is not None else {},
        }

    def load_state(self, state: State) -> None:
        """Puts back a state of the exchanges.

        Args:
            state: The state that `state` gave.
        """
        self._standing.load_state(state)
        self._changes.load_state(state.get("changes", []))
        self._standing.changed = self._changes.in_force
        self._between_rounds = bool(state.get("between_rounds", True))
        self._released, self._over = int(state["released"]), bool(state.get("over", False))
        updates = map(unpack_update, state["updates"])
        self._updates = {update.client: update for update in updates}
        self._events = [from_json(event) for event in state["untold"]]
        if self._summing is not None:
            self._summing.load_state(state["summing"])
        if self._coded is not None:
            self._coded.load_state(state.get("coded", {}))
        if self._in_flight is not None:
            self._in_flight.load_state(state.get("in_flight", {}))
        if self._cross is not None:
            self._cross.load_state(state.get("cross", {}))
        self._standing.readmit(self._intake.load_state(state, self._readmitted))
        self._leave_out_gone()

    def _leave_out_gone(self) -> None:
        """Treats clients that are gone as finished; their last updates are not averaged."""
        gone = (*self._gone, *self._intake.quarantined)
        self._standing.leave_out(gone)
        for client in gone:
            self._updates.pop(client, None)


def _is_another(model: Tensors, before: Tensors) -> bool:
    """Tells whether tensors of a model have been replaced since it was `before`."""
    return any(model[name] is not before[name] for name in before)


def _loss_of(reply: Reply) -> list[float]:
    """Gives the mean loss over the samples of a reply's events; empty: it has learned none."""
    learned = [event for event in reply.events if isinstance(event, Learned)]
    samples = sum(event.samples for event in learned)
    return [sum(event.loss for event in learned) / samples] if samples else []


def _to_device(update: Update, device: torch.device) -> Update:
    """Moves the tensors of an update to a device."""
    state, extras = (all_to_device(tensors, device) for tensors in (update.state, update.extras))
    return replace(update, state=state, extras=extras)
