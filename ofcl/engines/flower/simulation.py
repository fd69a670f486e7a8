"""Flower's simulation engine: clients in Ray's processes, on this machine or on a cluster.

A process serves many clients, one after the other, so each client lives in its own folder
(`party.py`); a process keeps the last few in memory. The folders must be reachable from every
machine of a cluster.
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
from ofcl.engines.messages import Request, pack_reply, pack_request, unpack_request
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
"""The number of a client → it, as it is at the beginning."""


class Simulation:
    """A courier to clients in Ray's processes.

    `make` goes to these processes by pickle: it should hold names and paths rather than data.
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
        self._nodes: dict[int, int] = {}  # by the number of the client

    def _start(self) -> None:
        # Whoever leaves a run in the middle, by an error of his own, shall not wait for Flower's
        # threads for ever; they are waited for before anything of `atexit` is called.
        threading._register_atexit(self._over.set)  # type: ignore[attr-defined]
        self._thread.start()
        self._grid = self._wait_for_grid()
        self._nodes = self._meet()

    def _simulate(self) -> None:
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
        except BaseException as error:  # it is told where somebody waits for an answer
            self._failure = error

    def _wait_for_grid(self) -> Grid:
        until = time.monotonic() + STARTING
        while time.monotonic() < until and self._thread.is_alive():
            try:
                return self._grids.get(timeout=0.1)
            except queue.Empty:
                continue
        raise OfclError(f"Flower's simulation has not started ({self._failure})")

    def _meet(self) -> dict[int, int]:
        """Asks every node which client it is."""
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
        """Every client answers, however long it takes; the first time, Ray is started."""
        if not self._nodes:
            self._start()
        asked = {self._nodes[k]: pack_request(request) for k, request in requests.items()}
        answers = self._ask(asked)
        return {k: answers[self._nodes[k]] for k in requests}

    def _ask(self, asked: Mapping[int, State]) -> dict[int, State]:
        from flwr.app import Message

        messages = [
            Message(as_records(state), dst_node_id=node, message_type="query.ofcl")
            for node, state in asked.items()
        ]
        answers = {}
        for message in self._grid.send_and_receive(messages):
            self._check()
            if message.has_error():
                raise OfclError(f"a client's process has failed: {message.error.reason}")
            answers[message.metadata.src_node_id] = from_records(message.content)
        return answers

    def _check(self) -> None:
        if not self._thread.is_alive():
            raise OfclError(f"Flower's simulation has ended ({self._failure})")

    def close(self) -> None:
        """Ends the simulation."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=60)


def _backend(ray: str | None) -> dict[str, Any]:
    quiet = {"logging_level": "error", "log_to_driver": False, "include_dashboard": False}
    # Without "local" Ray would join another run's processes, and wait for them to be free.
    init: dict[str, Any] = {"address": ray or "local", **quiet}
    return {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": init}


def client_app(folder: str, make: Callable[[], MakeClient]) -> ClientApp:
    """What runs in Ray's processes."""
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query("ofcl")
    def answer(message: Message, context: Context) -> Message:
        number, state = int(str(context.node_config["partition-id"])), from_records(message.content)
        if not state:
            return Message(as_records({"client": number}), reply_to=message)
        torch.set_num_threads(1)  # the processes share the cores
        reply = parties(folder, make, number).answer(unpack_request(state))
        return Message(as_records(pack_reply(reply)), reply_to=message)

    return app


_PARTIES: OrderedDict[tuple[str, int], Responder] = OrderedDict()  # of this process
_MAKERS: dict[str, MakeClient] = {}


def parties(folder: str, make: Callable[[], MakeClient], number: int) -> Responder:
    """A client of this process; only the last few stay in memory, all are on the disk."""
    if folder not in _MAKERS:
        _MAKERS.clear()
        _MAKERS[folder] = make()
    party = _PARTIES.pop((folder, number), None)
    if party is None:
        party = Responder(Path(folder) / str(number), functools.partial(_MAKERS[folder], number))
    _PARTIES[folder, number] = party
    while len(_PARTIES) > KEPT:
        _PARTIES.popitem(last=False)
    return party
