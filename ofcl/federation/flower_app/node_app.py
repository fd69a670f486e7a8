"""Answers a run's messages at a SuperNode, as Flower's `ClientApp`.

Flower starts a new process for every message. So nothing is kept in memory: the client, its memory
and its last answer are in the party's folder (`engines/responder.py`), which the node's own
configuration names. A process that is killed loses nothing, and a message that comes twice is
learned once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import as_records, check_flower, from_records
from ofcl.federation.party_side.hosted_party import HostedParty
from ofcl.state import Flat, State
from ofcl.storage.locks import wait_for_lock

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

ADVICE = (
    'start the node with --node-config \'party="hospital-a" folder="/srv/ofcl" dataset="data.csv"\''
)


def read_party(config: Mapping[str, Any]) -> HostedParty:
    """Reads a node's configuration (`flower-supernode --node-config`).

    Args:
        config: The configuration (`HostedParty.of`), with what Flower's simulation adds to it.

    Raises:
        OfclError: If a value is missing or cannot be used; the error says which.
    """
    flowers = ("partition-id", "num-partitions")
    own = {name: value for name, value in config.items() if name not in flowers}
    return HostedParty.of("flower", own, ADVICE)


def answer_once(party: HostedParty, message: State) -> State | Flat:
    """Answers a message; one process at a time does so in the party's folder.

    Args:
        party: The party.
        message: The party's number in this run, and the server's message.

    Returns:
        The answer. If there is none, `FAILED`: the reason stays in the node's own log.
    """
    party.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with wait_for_lock(party.folder / "lock"):
        member = None
        try:
            member = party.member(int(message["number"]))
            return member.answer(message["content"])
        except Exception as error:
            return party.failed(error, member)


def make_client_app(read: Callable[[Mapping[str, Any]], HostedParty] = read_party) -> ClientApp:
    """Makes the app that answers a run's messages at a SuperNode.

    Args:
        read: Reads the node's configuration.
    """
    check_flower()
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query("who")
    def who(message: Message, context: Context) -> Message:
        name = read(context.node_config).name
        return Message(as_records({"party": name}), reply_to=message)

    @app.query("answer")
    def answer(message: Message, context: Context) -> Message:
        reply = answer_once(read(context.node_config), from_records(message.content))
        return Message(as_records(reply), reply_to=message)

    return app
