"""A party may answer messages at Flower's server, in its own name; it may send none to others.

Flower takes a message of a party without `reply_to` for one of the server's, and delivers it to any
other party. Its server asks for the party's key, and does not compare it with the sender that the
message names. Both are done here, before Flower stores anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def replies_only(
    push: Callable[..., Any], tell: Callable[[str], None]
) -> Callable[[Any, Any], Any]:
    """Wraps Flower's handler of parties' messages: it takes answers of the caller alone.

    Args:
        push: Flower's handler.
        tell: Is given a line about every refused message, with the name of the party.

    Returns:
        The handler to be put in its place.
    """

    def checked(request: Any, state: Any) -> Any:
        from flwr.supercore.error import ApiErrorCode, FlowerError

        for message in request.messages_list:
            about = message.metadata
            sender = request.node.node_id
            if about.reply_to_message_id and about.src_node_id == sender:
                continue
            what = "an answer for somebody else" if about.reply_to_message_id else "a request"
            name = _name_of(sender, state)
            tell(f"refused {what} that {name} has sent; only the server sends requests")
            raise FlowerError(ApiErrorCode.FLEET_RUN_STATUS_NOT_ALLOWED, f"{name} sent {what}")
        return push(request=request, state=state)

    return checked


def _name_of(node: int, state: Any) -> str:
    """Gives the name of the party with a node of Flower's."""
    found = list(state.get_node_info(node_ids=[node]))
    return str(found[0].name) if found else f"node {node}"
