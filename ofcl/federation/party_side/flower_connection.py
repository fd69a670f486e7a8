"""A party's connection to the server: Flower's Fleet interface, over TLS and with the party's key.

The interface is called directly, without Flower's SuperNode, for three reasons: code that Flower's
server ships is never downloaded; a party is one process, which can be killed and started again at
once; and a round takes two seconds instead of eleven.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import check_flower, from_records
from ofcl.errors import OfclError
from ofcl.federation.party_side.flower_calls import TRY_AGAIN, Caller, Refused, RunOver
from ofcl.federation.party_side.flower_messages import Mailbox
from ofcl.state import Flat, State
from ofcl.storage.atomic_files import write_whole

if TYPE_CHECKING:
    from flwr.app import Message

NODE_FILE = "node-id"  # the number that the server knows this party's last process by
LOOK_AGAIN = 0.1  # seconds between two looks for messages, while messages come
LOOK_AGAIN_IDLE = 10.0  # seconds between two looks when no message has come for long
PATIENCE = 20.0  # the pause is the time since the last message, divided by this
EARLY = 0.6  # the first look after an answer, as a share of how long the last message took to come
SOON = 1.0  # second: a message that took longer says nothing of the next
HEARTBEAT = 30.0  # seconds; the server takes a party for gone after two without one
TRIES = 3  # attempts to send an answer
KEPT_OPEN = 60.0  # seconds for which an unused connection stays open: less than the server's 75


class FlowerConnection:
    """A party's connection to Flower's server (a `Connection`).

    Args:
        address: The server's host and port.
        authority: The certificate that vouches for the server; None: without TLS.
        key: The party's private key.
        folder: The party's folder.
        tell: Is given each line of the party's log.
        leaving: Is set when the process is about to end: the server is not called any more.
    """

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
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes
        from flwr.supernode.fleet_http_client import FleetHttpClient
        from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

        self._folder, self._tell = folder, tell
        self._caller = Caller(address, plain=authority is None, tell=tell, leaving=leaving)
        private: Any = load_ssh_private_key(key, None)
        public = private.public_key()
        self._public_key = public_key_to_bytes(public)
        self._client = FleetHttpClient.from_server_address(
            address,
            authority is None,
            authority,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(private, public),
            ],
        )
        # Otherwise, an idle party would make a new TLS connection for each of its looks.
        self._client._client._transport._pool._keepalive_expiry = KEPT_OPEN  # type: ignore[attr-defined]

    def __enter__(self) -> FlowerConnection:
        from flwr.supercore.heartbeat import HeartbeatSender

        self._client.__enter__()
        self._deactivate_last_process()
        self._activate()
        self._beat = HeartbeatSender(self._send_heartbeat)
        self._beat.start()
        return self

    def _activate(self) -> None:
        """Tells the server that this party is connected; saves the number that the server gives it.

        Raises:
            Refused: If the server does not let this party in.
        """
        import httpx
        from flwr.proto.fleet_pb2 import ActivateNodeRequest
        from flwr.proto.node_pb2 import Node

        request = ActivateNodeRequest(public_key=self._public_key, heartbeat_interval=HEARTBEAT)
        try:
            number = self._caller.call(self._client.ActivateNode, request).node_id
        except (httpx.HTTPStatusError, RunOver):
            raise self._caller.unknown_key() from None
        self._node = Node(node_id=number)
        self._caller.let_in = True
        write_whole(self._folder / NODE_FILE, str(number))

    def _deactivate_last_process(self) -> None:
        """Takes the party's previous process off the server's list, if that process was killed."""
        import httpx
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest

        path = self._folder / NODE_FILE
        if not path.exists():
            return
        request = DeactivateNodeRequest(node_id=int(path.read_text(encoding="ascii")))
        with contextlib.suppress(httpx.HTTPStatusError, Refused):  # it was gone already
            self._caller.call(self._client.DeactivateNode, request)

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
        """Tells the server that this party is still connected; returns whether it confirmed."""
        import httpx
        from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest

        request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT)
        try:
            return bool(self._client.SendNodeHeartbeat(request).success)
        except httpx.HTTPError:
            return False

    def serve(self, answer: Callable[[State], State | Flat], failed: Callable[[], None]) -> None:
        """Answers the server's messages until the process is stopped.

        Args:
            answer: Takes the content of a message and gives the answer.
            failed: Is called after `answer` has raised an error, before the server is told that
                this party could not answer.
        """
        mailbox = Mailbox(self._client, self._node, self._caller)
        since, took = time.monotonic(), 0.0
        while True:
            try:
                received = mailbox.receive()
                if received is None:
                    time.sleep(pause_after(time.monotonic() - since, took))
                    continue
                took = time.monotonic() - since
                self._send(mailbox, received, self._answer(received, answer, failed))
                since = time.monotonic()
                time.sleep(pause_after(0.0, took))  # it is too early to look
            except RunOver:
                self._tell("a message of a run that has ended, or that was cut off, was dropped")

    def _send(self, mailbox: Mailbox, received: Message, content: State | Flat | None) -> None:
        """Sends an answer, with a few tries; if all fail, the server will ask again.

        Args:
            mailbox: Sends it.
            received: The message that is answered.
            content: The answer; None: the server is told that this party could not answer.
        """
        from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

        for _ in range(TRIES):
            try:
                mailbox.reply(received, content)
                break
            except ObjectPushError:  # the server was started again meanwhile
                time.sleep(TRY_AGAIN)
        else:
            self._tell("an answer could not be sent")

    def _answer(
        self,
        message: Message,
        answer: Callable[[State], State | Flat],
        failed: Callable[[], None],
    ) -> State | Flat | None:
        """Gives the answer to a message.

        Args:
            message: The message.
            answer: Takes the content of the message and gives the answer.
            failed: Is called if `answer` raises an error.

        Returns:
            The answer; None if `answer` has raised an error, which only this party's log names.
        """
        try:
            return answer(from_records(message.content))
        except OfclError as error:
            self._tell(f"error: {error}")
        except OSError as error:  # a disk that is full or gone
            self._tell(f"error: {error}; the server asks again, and this party goes on then")
        except Exception as error:  # whatever the server has sent, this party stays
            self._tell(f"error: {type(error).__name__}: {error}\n{traceback.format_exc()}")
        self._note_failure(failed)
        return None

    def _note_failure(self, failed: Callable[[], None]) -> None:
        """Notes a failure, before the server hears of it; tries until that can be written."""
        told = False
        while True:
            try:
                failed()
                return
            except OfclError as error:
                if not told:
                    self._tell(f"error: {error}")
                told = True
            self._caller.wait()


def pause_after(idle: float, took: float = 0.0) -> float:
    """Gives the seconds until the next look for messages; each look costs the server 10 ms.

    Args:
        idle: Seconds since the last message was answered.
        took: Seconds that the last message took to come after an answer.

    >>> pause_after(1.0), pause_after(60.0), pause_after(3600.0)
    (0.1, 3.0, 10.0)
    >>> pause_after(0.0, took=0.5), pause_after(0.3, took=0.5), pause_after(0.0, took=60.0)
    (0.3, 0.1, 0.1)
    """
    early = EARLY * took - idle if took <= SOON else 0.0
    return min(max(early, idle / PATIENCE, LOOK_AGAIN), LOOK_AGAIN_IDLE)
