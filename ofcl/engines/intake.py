"""Takes in the answers of clients: checks them, and compares with what a client told before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ofcl.engines.coded_models import CodedModels
from ofcl.engines.gate import Gate
from ofcl.engines.messages import Reply, Request, unpack_reply
from ofcl.engines.quarantine import Quarantine
from ofcl.engines.rejection import Rejected
from ofcl.state import State


class Intake:
    """Reads answers of clients; tells the user what is wrong with them, and who sent it.

    Args:
        names: The names of the clients, for the user.
        gate: Checks the answers; a rejected one counts as no answer. None: answers are trusted.
        quarantine: Leaves out clients whose answers are rejected again and again; None: they are
            asked for ever.
        tell: Is given each line for the user.
        coded: Makes coded updates whole; None: updates come as they are.
    """

    def __init__(
        self,
        names: Sequence[str],
        gate: Gate | None,
        quarantine: Quarantine | None,
        tell: Callable[[str], None],
        coded: CodedModels | None = None,
    ) -> None:
        self._coded = coded
        self._names, self._gate, self._quarantine, self._tell = names, gate, quarantine, tell
        self._known: dict[int, tuple[int, str]] = {}  # mini-batches and data of each client
        self._told_lost: set[int] = set()

    @property
    def quarantined(self) -> Collection[int]:
        """The numbers of the clients that are in quarantine."""
        return self._quarantine.members if self._quarantine is not None else ()

    def read(self, answer: State | None, request: Request, client: int) -> Reply | None:
        """Reads the answer of a client.

        Args:
            answer: The answer; None: the client has not answered.
            request: The request that was sent to the client.
            client: The number of the client.

        Returns:
            The reply; None if there is no answer, if it was rejected, or if the client waits for
            its owner's decision.
        """
        if answer is None:
            return None
        if self._gate is None:
            return unpack_reply(self._whole(answer, request, client))
        try:
            reply = self._gate.passed(self._whole(answer, request, client), request, client)
        except Rejected as error:
            self.reject(client, error)
            return None
        if self._quarantine is not None:
            self._quarantine.passed(client)
        return self._compared(reply)

    def _whole(self, answer: State, request: Request, client: int) -> State:
        """Makes a coded update whole; raises `Rejected` if it cannot be read."""
        if self._coded is None:
            return answer
        try:
            return self._coded.whole(answer, request, client)
        except Exception as error:  # something is of another type than anybody could expect
            raise Rejected(f"its coded update cannot be read ({error})") from None

    def reject(self, client: int, why: Exception) -> None:
        """Tells the user that an answer is rejected, and counts it for the quarantine.

        Args:
            client: The number of the client that has sent it.
            why: The reason.
        """
        name = self._names[client]
        self._tell(f"rejected what {name} has sent: {why}")
        if self._quarantine is not None and self._quarantine.rejected(client):
            self._tell(
                f"{name} is in quarantine: it is not asked any more. When it is mended: "
                f"ofcl federation start FOLDER --resume --readmit {name}"
            )

    def _compared(self, reply: Reply) -> Reply | None:
        """Compares a reply with what the client has told before; tells the user what is odd.

        Returns:
            The reply; None if the client has lost its state and waits for its owner's decision.
        """
        client, name = reply.client, self._names[reply.client]
        learned, data = self._known.get(client, (0, ""))
        if reply.status == "lost":
            if client not in self._told_lost:
                self._told_lost.add(client)
                self._tell(
                    f"{name} has {reply.learned} mini-batches of the {learned} it has told of: "
                    "its state is lost or runs elsewhere, too. It decides (--accept-loss)"
                )
            return None
        self._told_lost.discard(client)
        if reply.status == "asking":
            return reply
        if reply.learned < learned:
            lost = learned - reply.learned
            self._tell(f"{name} goes on without {lost} mini-batches that it has told of before")
        if data and reply.data and data != reply.data:
            self._tell(f"{name} learns from other data than before")
        self._known[client] = reply.learned, reply.data or data
        return reply

    def state(self) -> State:
        """Gives what clients have told and who is in quarantine, for a checkpoint."""
        return {
            "known": [[client, *told] for client, told in self._known.items()],
            "quarantine": sorted(self.quarantined),
        }

    def load_state(self, state: State, readmitted: Collection[int]) -> set[int]:
        """Puts back what `state` gave.

        Args:
            state: A state with these fields; earlier versions had none of them.
            readmitted: Clients that the operator lets in again.

        Returns:
            The clients that were in quarantine and are let in again.
        """
        self._known = {client: (learned, data) for client, learned, data in state.get("known", [])}
        members = set(state.get("quarantine", []))
        if self._quarantine is None:
            return set()
        self._quarantine.load(members, readmitted)
        return members.intersection(readmitted)
