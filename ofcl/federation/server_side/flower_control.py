"""The administrator's connection to Flower's server: enrols keys, lists parties, starts runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import check_flower

if TYPE_CHECKING:
    from ofcl.federation.setup.folders import ServerFolder

HEADER = "x-ofcl-administrator"  # the HTTP header with the administrator's token
ONLINE = "online"  # Flower's word for a node that is connected
STRUCK_OFF = "unregistered"  # Flower's word for a node whose key is refused


class ServerUnreachable(Exception):
    """Raised when no server answers on this machine."""


@dataclass(frozen=True)
class Node:
    """A party as Flower's server knows it.

    Args:
        number: Flower's number of the party's node.
        status: Flower's word for the node's state: online, offline, registered.
        activated: When the party's process last connected, as an ISO 8601 text.
        deactivated: When the party's process last disconnected, as an ISO 8601 text.
    """

    number: int
    status: str
    activated: str
    deactivated: str

    @property
    def online(self) -> bool:
        """Whether the party is connected."""
        return self.status == ONLINE

    @property
    def since(self) -> str:
        """When the party connected or, if it is not connected, when it disconnected (ISO 8601)."""
        return self.activated if self.online else self.deactivated


class FlowerControl:
    """The administrator's connection to the server on this machine.

    Every method raises `ServerUnreachable` if no server answers.

    Args:
        server: The server's folder.
        insecure: Whether to speak to the server without TLS.
    """

    def __init__(self, server: ServerFolder, *, insecure: bool) -> None:
        check_flower()
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        version = RuntimeVersionHttpInterceptor(component_name="ofcl")
        self._client = ControlHttpClient.from_server_address(
            server.here,
            insecure,
            None if insecure else server.authority.read_bytes(),
            interceptors=[version, _Token(server.token())],
        )

    def nodes(self) -> dict[str, Node]:
        """Lists the parties whose keys are enrolled, by their names."""
        from flwr.proto.control_pb2 import ListNodesRequest

        with _reached():
            listed = self._client.ListNodes(ListNodesRequest()).nodes_info
        return {
            node.name: Node(
                number=node.node_id,
                status=node.status,
                activated=node.last_activated_at,
                deactivated=node.last_deactivated_at,
            )
            for node in listed
            if node.status != STRUCK_OFF
        }

    def register(self, server: ServerFolder) -> None:
        """Enrols the keys of the parties that take part, and refuses those of parties that left.

        Args:
            server: The server's folder as it is now.
        """
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key
        from flwr.proto.control_pb2 import RegisterNodeRequest, UnregisterNodeRequest
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        known = self.nodes()
        with _reached():
            for party in server.federation.left:
                if party in known:
                    request = UnregisterNodeRequest(node_id=known[party].number)
                    self._client.UnregisterNode(request)
            for party, path in server.public_keys().items():
                if party not in known:
                    key: Any = load_ssh_public_key(path.read_bytes())
                    public = public_key_to_bytes(key)
                    self._client.RegisterNode(RegisterNodeRequest(public_key=public, name=party))

    def start_run(self, app: bytes, digest: str) -> int:
        """Starts a run at Flower's server.

        Args:
            app: The app that Flower would ship to the parties (they ignore it).
            digest: The SHA-256 of the app.

        Returns:
            Flower's number of the run.
        """
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        request = StartRunRequest(fab=fab_to_proto(Fab(digest, app, {})))
        with _reached():
            return int(self._client.StartRun(request).run_id)


class _Token:
    """Puts the administrator's token into every request.

    Args:
        token: The token.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """Adds the token's header to a request, and hands the request on.

        Args:
            context: Flower's context, which has the request.
            call_next: Sends the request, and gives the server's response.
        """
        context.request.headers[HEADER] = self._token
        return call_next(context)


@contextlib.contextmanager
def _reached() -> Iterator[None]:
    """Turns errors of the network, within the context, into `ServerUnreachable`."""
    import httpx

    try:
        yield
    except httpx.TransportError as error:
        raise ServerUnreachable(str(error)) from error
