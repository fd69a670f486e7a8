"""Flower's simulation engine: clients in Ray's processes, on this machine or on a cluster.

A process serves many clients, one after the other, and keeps only the last few of them in memory.
Each client's state is in a folder of its own (`engines/responder.py`), which every machine of a
cluster must be able to reach.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ofcl.client import Client
from ofcl.engines.flower.records import as_records, check_flower, from_records
from ofcl.engines.messages import Request, pack_request, unpack_request
from ofcl.engines.responder import Responder
from ofcl.errors import OfclError
from ofcl.state import State

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

KEPT = 8  # clients that a process keeps in memory
LOOK_AGAIN = 0.01  # seconds between two looks for answers
STARTING = 120.0  # seconds that Ray may take to start

MakeClient = Callable[[int], Client]
"""Builds the client with a given number, as it is at the beginning of a run."""


class Simulation:
    """A `Channel` to clients in Ray's processes; it waits for all of them without a deadline.

    Args:
        clients: The number of clients.
        folder: Where each client's state is kept, in a folder named by its number.
        make: Is called once in each process, and gives the function that builds clients. It is
            pickled and sent to the processes, so it should hold names and paths rather than data.
        ray: The address of a Ray cluster; None: Ray starts on this machine.
    """

    def __init__(
        self, clients: int, folder: Path, make: Callable[[], MakeClient], ray: str | None = None
    ) -> None:
        check_flower()
        self._clients, self._folder, self._make, self._ray = clients, folder, make, ray
        self._grids: queue.Queue[Grid] = queue.Queue()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._simulate, name="flower", daemon=True)
        self._nodes: dict[int, int] = {}  # client → Flower's number of its node
        self._on_their_way: dict[str, int] = {}  # message → client; of `arrivals`

    def _start(self) -> None:
        """Starts Flower's simulation, and waits until it can reach every client."""
        # A caller that leaves a run in the middle, by an error of its own, shall not wait for
        # Flower's threads for ever; Python waits for them before it calls anything of `atexit`.
        threading._register_atexit(self._over.set)  # type: ignore[attr-defined]
        self._thread.start()
        self._grid = self._wait_for_grid()
        self._nodes = self._meet()

    def _simulate(self) -> None:
        """Runs Flower's simulation, in a thread of its own, until `close` is called."""
        from flwr.serverapp import ServerApp
        from flwr.simulation import run_simulation

        server, app = ServerApp(), client_app(str(self._folder.resolve()), self._make)

        @server.main()
        def main(grid: Grid, context: Context) -> None:
            grid.pull_interval = LOOK_AGAIN  # type: ignore[attr-defined]
            self._grids.put(grid)
            self._over.wait()

        try:
            run_simulation(
                server, app, num_supernodes=self._clients, backend_config=_backend(self._ray)
            )
        except BaseException as error:  # raised where an answer is waited for
            self._failure = error

    def _wait_for_grid(self) -> Grid:
        """Waits for the grid, with which Flower sends messages to clients."""
        until = time.monotonic() + STARTING
        while time.monotonic() < until and self._thread.is_alive():
            try:
                return self._grids.get(timeout=0.1)
            except queue.Empty:
                continue
        raise OfclError(f"Flower's simulation has not started ({self._failure})")

    def _meet(self) -> dict[int, int]:
        """Asks every node which client it serves; gives the nodes by the numbers of the clients."""
        until = time.monotonic() + STARTING
        while len(nodes := list(self._grid.get_node_ids())) < self._clients:
            self._check()
            if time.monotonic() > until:  # Ray waits for ever for a cluster that is not there
                where = self._ray or "this machine"
                raise OfclError(f"Ray has not started its processes on {where}")
            time.sleep(LOOK_AGAIN)
        answers = self._ask({node: {} for node in nodes})
        return {int(state["client"]): node for node, state in answers.items()}

    def exchange(self, requests: Mapping[int, Request]) -> Mapping[int, State]:
        """Sends requests, and waits until every client has answered.

        The first call starts Ray.

        Args:
            requests: The requests by the numbers of the clients.

        Returns:
            The replies by the numbers of the clients.

        Raises:
            OfclError: If the simulation cannot be started or has ended, or a client has failed.
        """
        if not self._nodes:
            self._start()
        contents = {self._nodes[k]: pack_request(request) for k, request in requests.items()}
        answers = self._ask(contents)
        return {k: answers[self._nodes[k]] for k in requests}

    def arrivals(self, requests: Mapping[int, Request], *, wait: bool) -> Mapping[int, State]:
        """Sends requests that are not on their way, and gives the answers that have come.

        Args:
            requests: The requests by the numbers of the clients.
            wait: Whether to wait until there is an answer.

        Returns:
            The replies by the numbers of the clients.

        Raises:
            OfclError: If the simulation cannot be started or has ended, or a client has failed.
        """
        if not self._nodes:
            self._start()
        new = [k for k in requests if k not in self._on_their_way.values()]
        messages = _messages({self._nodes[k]: pack_request(requests[k]) for k in new})
        sent = self._grid.push_messages(messages) if new else []
        self._on_their_way |= dict(zip(sent, new, strict=True))
        while True:
            self._check()
            found = {
                self._on_their_way.pop(message.metadata.reply_to_message_id): _content(message)
                for message in self._grid.pull_messages(list(self._on_their_way))
            }
            if found or not wait:
                return found
            time.sleep(LOOK_AGAIN)

    def _ask(self, contents: Mapping[int, State]) -> dict[int, State]:
        """Sends a message to each of several nodes, and waits for all answers.

        Args:
            contents: The messages, by Flower's numbers of the nodes.

        Returns:
            The answers, by Flower's numbers of the nodes.

        Raises:
            OfclError: If a client's process has failed, or the simulation has ended.
        """
        answers = {}
        for message in self._grid.send_and_receive(_messages(contents)):
            self._check()
            answers[message.metadata.src_node_id] = _content(message)
        return answers

    def _check(self) -> None:
        """Raises an error if the simulation has ended."""
        if not self._thread.is_alive():
            raise OfclError(f"Flower's simulation has ended ({self._failure})")

    def close(self) -> None:
        """Ends the simulation and Ray's processes; waits for them, but at most a minute."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=60)


def _messages(contents: Mapping[int, State]) -> list[Message]:
    """Makes a message to each of several nodes, by Flower's numbers of the nodes."""
    from flwr.app import Message

    return [
        Message(as_records(content), dst_node_id=node, message_type="query.ofcl")
        for node, content in contents.items()
    ]


def _content(message: Message) -> State:
    """Reads an answer; raises an error if the client's process has failed."""
    if message.has_error():
        raise OfclError(f"a client's process has failed: {message.error.reason}")
    return from_records(message.content)


def _backend(ray: str | None) -> dict[str, Any]:
    """Gives the options with which Flower starts Ray, or joins the cluster at the address `ray`."""
    quiet = {"logging_level": "error", "log_to_driver": False, "include_dashboard": False}
    # Without "local" Ray would join another run's processes, and wait for them to be free.
    init: dict[str, Any] = {"address": ray or "local", **quiet}
    return {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": init}


def client_app(folder: str, make: Callable[[], MakeClient]) -> ClientApp:
    """Makes the app that answers requests in Ray's processes.

    Args:
        folder: Where each client's state is kept, in a folder named by its number.
        make: Gives the function that builds clients (`Simulation`).
    """
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query("ofcl")
    def answer(message: Message, context: Context) -> Message:
        number = int(str(context.node_config["partition-id"]))
        request = from_records(message.content)
        if not request:  # it asks which client this node is
            return Message(as_records({"client": number}), reply_to=message)
        torch.set_num_threads(1)  # the processes share the cores
        reply = responder(folder, make, number).answer(unpack_request(request))
        return Message(as_records(reply), reply_to=message)

    return app


_RESPONDERS: OrderedDict[tuple[str, int], Responder] = OrderedDict()  # of this process
_MAKERS: dict[str, MakeClient] = {}


def responder(folder: str, make: Callable[[], MakeClient], number: int) -> Responder:
    """Gives the responder of a client: the one in this process's memory, or else a new one.

    Only the responders used last stay in memory; the state of all clients is on the disk.

    Args:
        folder: Where each client's state is kept, in a folder named by its number.
        make: Gives the function that builds clients (`Simulation`).
        number: The number of the client.
    """
    if folder not in _MAKERS:
        _MAKERS.clear()
        _MAKERS[folder] = make()
    found = _RESPONDERS.pop((folder, number), None)
    if found is None:
        found = Responder(Path(folder) / str(number), functools.partial(_MAKERS[folder], number))
    _RESPONDERS[folder, number] = found
    while len(_RESPONDERS) > KEPT:
        _RESPONDERS.popitem(last=False)
    return found
