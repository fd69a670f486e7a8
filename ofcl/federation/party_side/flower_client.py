"""A party's connection to the server: Flower's Fleet interface, over TLS and with the party's key.

It is used directly, without Flower's SuperNode, for three reasons: the code that a run ships is
never even downloaded here; a party is one process, which can be killed and started again at once;
and a round takes two seconds instead of eleven.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import as_records, check_flower, from_records
from ofcl.errors import OfclError
from ofcl.state import Flat, State
from ofcl.storage.atomic_files import write_whole

if TYPE_CHECKING:
    from flwr.app import Message

NODE_FILE = "node-id"  # the number that the server knows this party's last process by
LOOK_AGAIN = 0.1  # seconds between two looks for messages
TRY_AGAIN = 2.0  # seconds between two tries to reach the server
HEARTBEAT = 30.0  # seconds; the server takes a party for gone after two without one
PULL_WAIT = 0.05  # seconds until a message is asked for again that is not whole yet
PULL_TIME = 30.0  # seconds until a message that is not whole is given up
TRIES = 3  # to send an answer
TEMPORARY = (502, 503, 504)
AHEAD, BEHIND = 4.0, 300.0  # seconds of a clock; Flower refuses five ahead, and 305 behind


class Refused(OfclError):
    """The server does not let this party in."""


class RunOver(Exception):
    """The run of a message has ended."""


class FlowerConnection:
    """The connection of one party; it stops trying to reach the server when it is `leaving`."""

    def __init__(
        self,
        address: str,
        authority: bytes | None,
        key: bytes,
        folder: Path,
        tell: Callable[[str], None],
        leaving: threading.Event,
    ) -> None:
        check_flower()
        from cryptography.hazmat.primitives.serialization import load_ssh_private_key
        from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
        from flwr.supernode.fleet_http_client import FleetHttpClient
        from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

        self._address, self._folder, self._tell = address, folder, tell
        self._plain, self._leaving = authority is None, leaving
        private: Any = load_ssh_private_key(key, None)
        self._public = private.public_key()
        self._client = FleetHttpClient.from_server_address(
            address,
            authority is None,
            authority,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(private, self._public),
            ],
        )
        self._node: Any = None
        self._away = False  # whether it was told that the server cannot be reached

    # Transfer and going

    def __enter__(self) -> FlowerConnection:
        from flwr.supercore.heartbeat import HeartbeatSender
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        self._client.__enter__()
        self._key_bytes = public_key_to_bytes(self._public)
        self._leave_last_time()
        self._activate()
        self._beat = HeartbeatSender(self._send_heartbeat)
        self._beat.start()
        return self

    def _activate(self) -> None:
        import httpx
        from flwr.proto.fleet_pb2 import ActivateNodeRequest
        from flwr.proto.node_pb2 import Node

        request = ActivateNodeRequest(public_key=self._key_bytes, heartbeat_interval=HEARTBEAT)
        try:
            number = self._call(self._client.ActivateNode, request).node_id
        except (httpx.HTTPStatusError, RunOver):
            raise self._unknown_key() from None
        self._node = Node(node_id=number)
        write_whole(self._folder / NODE_FILE, str(number))

    def _leave_last_time(self) -> None:
        """A process that was killed is still connected to the server's mind: it is taken off."""
        import httpx
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest

        path = self._folder / NODE_FILE
        if not path.exists():
            return
        number = int(path.read_text(encoding="ascii"))
        with contextlib.suppress(httpx.HTTPStatusError, Refused):  # it was gone already
            self._call(self._client.DeactivateNode, DeactivateNodeRequest(node_id=number))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest

        if self._beat.is_running:
            self._beat.stop()
        with contextlib.suppress(Exception):  # the server may be gone; it will notice
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
        self._client.__exit__(kind, error, trace)

    def _send_heartbeat(self) -> bool:
        import httpx
        from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest

        request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT)
        try:
            return bool(self._client.SendNodeHeartbeat(request).success)
        except httpx.HTTPError:
            return False

    def _call(self, call: Callable[[Any], Any], request: Any) -> Any:
        """Calls the server, however long it takes until it can be reached."""
        import httpx

        while True:
            try:
                answer = call(request)
            except httpx.TransportError as error:
                self._judge_transport(error)
            except httpx.HTTPStatusError as error:
                self._judge(error)
            else:
                if self._away:
                    self._away = False
                    self._tell("the server can be reached again")
                return answer
            if not self._away:
                self._away = True
                self._tell(f"the server at {self._address} cannot be reached; trying again")
            if self._leaving.wait(TRY_AGAIN):  # this may be a thread that others wait for
                raise RunOver

    def _judge(self, error: Any) -> None:
        """Whether a refusal is worth another try; if not, it is raised in words."""
        status = error.response.status_code
        if status in TEMPORARY:
            return
        if status == 403:
            raise RunOver from None
        if status == 401:
            raise self._wrong_clock(error.response) or self._unknown_key() from None
        raise error

    def _wrong_clock(self, response: Any) -> Refused | None:
        """Why somebody with the right key is refused: what he signs carries the time."""
        try:
            there = parsedate_to_datetime(response.headers["date"])
        except (KeyError, ValueError):
            return None
        ahead = (datetime.now(UTC) - there).total_seconds()
        if -BEHIND < ahead < AHEAD:
            return None
        return Refused(
            f"the clock here is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the one "
            f"of the server at {self._address}, which refuses it for that; set both by NTP"
        )

    def _unknown_key(self) -> Refused:
        return Refused(
            f"the server at {self._address} does not know this party's key; the folder that the "
            "organiser has handed out last holds the right one, unless the party was removed"
        )

    def _judge_transport(self, error: Any) -> None:
        import httpx

        text = str(error).lower()
        if any(word in text for word in ("certificate", "ssl", "tls")):
            raise Refused(
                f"the server at {self._address} is not the one of this federation, or does not "
                f"speak TLS: {error}"
            ) from None
        # Whoever listens and hangs up on the first word waits for TLS.
        hung_up = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
        if hung_up and self._plain and self._node is None:
            raise Refused(
                f"the server at {self._address} does not speak plaintext: leave out --insecure"
            ) from None

    # Messages

    def serve(self, answer: Callable[[State], State | Flat], failed: Callable[[], None]) -> None:
        """Answers messages for ever; `failed` is called before the server hears of a failure."""
        self._failed = failed
        while True:
            try:
                received = self._receive()
                if received is None:
                    time.sleep(LOOK_AGAIN)
                    continue
                self._send(received, self._answered(received, answer))
            except RunOver:
                self._tell("a message of a run that has ended, or that was cut off, was dropped")

    def _send(self, received: Message, content: State | Flat | None) -> None:
        """Sends an answer; if it gets lost for good, the server will ask again."""
        from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

        for _ in range(TRIES):
            try:
                self._reply(received, content)
                break
            except ObjectPushError:  # the server was started again meanwhile
                time.sleep(TRY_AGAIN)
        else:
            self._tell("an answer could not be sent")

    def _answered(
        self, message: Message, answer: Callable[[State], State | Flat]
    ) -> State | Flat | None:
        """The answer; None: it failed, and why is told here alone."""
        try:
            return answer(from_records(message.content))
        except OfclError as error:
            self._tell(f"error: {error}")
        except Exception as error:  # whatever the server has sent, this party stays
            self._tell(f"error: {type(error).__name__}: {error}\n{traceback.format_exc()}")
        self._failed()
        return None

    def _receive(self) -> Message | None:
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

        pulled = self._call(self._client.PullMessages, PullMessagesRequest(node=self._node))
        if not pulled.messages_list:
            return None
        head = message_from_proto(pulled.messages_list[0]).metadata
        pull = make_pull_object_fn_protobuf(
            lambda request: self._call(self._client.PullObject, request), self._node, head.run_id
        )
        parts = [part.object_id for part in iterate_object_tree(pulled.message_object_trees[0])]
        try:
            contents = pull_objects(parts, pull, initial_backoff=PULL_WAIT, max_time=PULL_TIME)
        except ObjectPullError:
            raise RunOver from None  # whoever sent it has died while he did
        self._call(
            self._client.ConfirmMessageReceived,
            ConfirmMessageReceivedRequest(
                node=self._node, run_id=head.run_id, message_object_id=head.message_id
            ),
        )
        message: Any = inflate_object_from_contents(head.message_id, contents)
        message.metadata.__dict__["_message_id"] = head.message_id
        return message  # type: ignore[no-any-return]

    def _reply(self, received: Message, content: State | Flat | None) -> None:
        from flwr.app import Error, Message
        from flwr.app.message import remove_content_from_message
        from flwr.common.constant import ErrorCode
        from flwr.common.serde import message_to_proto
        from flwr.proto.fleet_pb2 import PushMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import push_objects
        from flwr.supercore.task_identity import TaskIdentity

        run = received.metadata.run_id
        TaskIdentity.task_id, TaskIdentity.run_id = 0, run
        TaskIdentity.node_id = self._node.node_id
        if content is None:
            failed = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason="see its own log")
            message = Message(failed, reply_to=received)
        else:
            message = Message(as_records(content), reply_to=received)
        message.metadata.__dict__["_message_id"] = message.object_id
        with no_object_id_recompute():
            head = remove_content_from_message(message) if message.has_content() else message
            pushed = self._call(
                self._client.PushMessages,
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(head)],
                    message_object_trees=[get_object_tree(message)],
                    clientapp_runtime_list=[0.0],  # how long it takes is nobody's business
                ),
            )
            push = make_push_object_fn_protobuf(
                lambda request: self._call(self._client.PushObject, request),
                self._node,
                run,
                pushed.session_id,
            )
            parts = get_all_nested_objects(message)
            push_objects(parts, push, object_ids_to_push=set(pushed.objects_to_push))
