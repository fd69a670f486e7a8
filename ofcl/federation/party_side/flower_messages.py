"""Messages of a run at a party: received from Flower's server in parts, and answered in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import as_records
from ofcl.federation.party_side.flower_calls import Caller, RunOver
from ofcl.state import Flat, State

if TYPE_CHECKING:
    from flwr.app import Message

PULL_WAIT = 0.05  # seconds between two requests for the missing parts of a message
PULL_TIME = 30.0  # seconds after which a message with missing parts is given up


class Mailbox:
    """Receives the messages for one party, and sends the party's answers.

    Args:
        client: Flower's client for its Fleet interface.
        node: Flower's node of the party.
        caller: Calls the client's methods.
    """

    def __init__(self, client: Any, node: Any, caller: Caller) -> None:
        self._client, self._node, self._caller = client, node, caller

    def receive(self) -> Message | None:
        """Takes the next message; None: no message is waiting.

        Raises:
            RunOver: If parts of the message never come, because the server was killed while it sent
                them, or if the message's run has ended.
        """
        from flwr.common.serde import message_from_proto
        from flwr.proto.fleet_pb2 import PullMessagesRequest
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import (
            ObjectPullError,
            inflate_object_from_contents,
            pull_objects,
        )

        request = PullMessagesRequest(node=self._node)
        pulled = self._caller.call(self._client.PullMessages, request)
        if not pulled.messages_list:
            return None
        head = message_from_proto(pulled.messages_list[0]).metadata
        pull = make_pull_object_fn_protobuf(
            self._calling(self._client.PullObject), self._node, head.run_id
        )
        parts = [part.object_id for part in iterate_object_tree(pulled.message_object_trees[0])]
        try:
            contents = pull_objects(parts, pull, initial_backoff=PULL_WAIT, max_time=PULL_TIME)
        except ObjectPullError:
            raise RunOver from None
        received = ConfirmMessageReceivedRequest(
            node=self._node, run_id=head.run_id, message_object_id=head.message_id
        )
        self._caller.call(self._client.ConfirmMessageReceived, received)
        message: Any = inflate_object_from_contents(head.message_id, contents)
        message.metadata.__dict__["_message_id"] = head.message_id
        return message  # type: ignore[no-any-return]

    def reply(self, received: Message, content: State | Flat | None) -> None:
        """Answers a message.

        Args:
            received: The message that is answered.
            content: The answer; None: the server is told that the party failed, and not why.
        """
        from flwr.app.message import remove_content_from_message
        from flwr.common.serde import message_to_proto
        from flwr.proto.fleet_pb2 import PushMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import push_objects

        run = received.metadata.run_id
        message = self._answer_to(received, content)
        with no_object_id_recompute():
            head = remove_content_from_message(message) if message.has_content() else message
            request = PushMessagesRequest(
                node=self._node,
                messages_list=[message_to_proto(head)],
                message_object_trees=[get_object_tree(message)],
                clientapp_runtime_list=[0.0],  # how long it takes is nobody's business
            )
            pushed = self._caller.call(self._client.PushMessages, request)
            push = make_push_object_fn_protobuf(
                self._calling(self._client.PushObject), self._node, run, pushed.session_id
            )
            parts = get_all_nested_objects(message)
            push_objects(parts, push, object_ids_to_push=set(pushed.objects_to_push))

    def _answer_to(self, received: Message, content: State | Flat | None) -> Message:
        """Makes the Flower message that answers a message.

        Args:
            received: The message that is answered.
            content: The answer; None: the Flower message reports a failure.
        """
        from flwr.app import Error, Message
        from flwr.common.constant import ErrorCode
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.task_id, TaskIdentity.run_id = 0, received.metadata.run_id
        TaskIdentity.node_id = self._node.node_id
        if content is None:
            failed = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason="see its own log")
            message = Message(failed, reply_to=received)
        else:
            message = Message(as_records(content), reply_to=received)
        message.metadata.__dict__["_message_id"] = message.object_id
        return message

    def _calling(self, method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wraps a method of Flower's client: calls are repeated until the server is reached."""
        return lambda request: self._caller.call(method, request)
