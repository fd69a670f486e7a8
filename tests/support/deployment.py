"""A federation of real processes over TLS on this machine, and its run directories."""

import contextlib
import signal
import socket
import time
from collections import Counter

from ofcl.federation.party_side import flower_connection
from ofcl.federation.server_side import courier
from ofcl.federation.setup.folders import Federation, load_server
from ofcl.federation.setup.organiser import create
from ofcl.settings.files import to_toml
from ofcl.storage.run_directory import RunDirectory
from tests.support.commands import Command, preload
from tests.support.federation import send_exactly

PARTIES = ("hospital-a", "hospital-b", "hospital-c")
PATIENCE = 60.0  # seconds for anything to happen

# Of the settings that were tried on one machine with clients that miss rounds and start late, those
# in which A depends on that least (by up to 1.3 points, with half of all rounds missed).
LONG = {"protocol": "sound", "dataset": "digits", "clients": 3, "tasks": 3, "method": "cbr",
        "memory": 300, "replay": "all", "model": "mlp", "hidden": 128, "steps": 12, "burn_in": 2,
        "q": 2, "batch_size": 8, "min_clients": 2, "seed": 1}  # fmt: skip


def look_less_often():
    """Leaves the cores to others: each look for messages costs Flower's server 10 ms of a core."""
    courier.LOOK_AGAIN = 0.2
    flower_connection.LOOK_AGAIN = 0.25


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Deployment:
    """Processes by name; what each of them says is in a file of its name.

    `prepare` is called in each of them before anything else. `modules` are imported once for all.
    With an `environment` (`tests.support.environments`), its commands make the folders and run.
    """

    def __init__(self, folder, prepare=look_less_often, modules=(), environment=None):
        self._prepare, self._environment = prepare, environment
        self.folder, self.logs = folder / "federation", folder
        if environment is None:
            preload("flwr.superlink.main", "flwr.superlink.cli", *modules)
            create(self.folder, Federation("trial", PARTIES, ("127.0.0.1",), free_port()))
        else:
            environment.ofcl("federation", "init", self.folder, "--clients", ",".join(PARTIES),
                             "--host", "127.0.0.1", "--port", free_port(), cwd=folder)  # fmt: skip
        for name in PARTIES:
            send_exactly(self.folder / name)
        self.server_folder = load_server(self.folder)
        self.processes = {}

    def spawn(self, name, *arguments):
        given, log = ("federation", *arguments), self.logs / f"{name}.log"
        if self._environment is None:
            self.processes[name] = Command(*given, log=log, prepare=self._prepare)
        else:
            self.processes[name] = self._environment.start(*given, cwd=self.logs, log=log)

    def server(self):
        self.spawn("server", "server", self.folder)

    def client(self, name, *arguments):
        self.spawn(name, "client", self.folder / name, "--dataset", "digits", "--share", *arguments)

    def log(self, name):
        path = self.logs / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, condition, what):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"{what}\n{self.told()}"
            time.sleep(0.05)

    def told(self):
        logs = sorted(self.logs.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs)

    def finish(self, name):
        """Waits until a process ends by itself; gives its exit code."""
        code, _, _ = self.processes[name].wait(2 * PATIENCE)
        del self.processes[name]  # only now: one that does not end is stopped with the others
        return code

    def kill(self, name, number=signal.SIGKILL):
        self.processes.pop(name).kill(number)

    @contextlib.contextmanager
    def frozen(self, name):
        """Lets no round pass while another process starts, however long that takes here."""
        self.processes[name].send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes[name].send(signal.SIGCONT)

    def stop(self):
        for name in reversed(list(self.processes)):
            self.kill(name, signal.SIGTERM)

    def connected(self, count):
        """Waits until so many parties have connected."""
        found = lambda: [name for name in PARTIES if "connected to" in self.log(name)]  # noqa: E731
        self.wait_for(lambda: len(found()) >= count, f"{count} clients")

    def connected_again(self, name):
        """Starts a party's process, and waits until it has connected."""
        before = self.log(name).count("connected to")
        self.client(name)
        self.wait_for(lambda: self.log(name).count("connected to") > before, name)


def settings_file(path, settings):
    values = {k: v for k, v in settings.items() if k not in ("dataset", "clients")}
    path.write_text(to_toml(values))
    return path


def rounds_of(out):
    if not out.exists():
        return 0
    return sum(event["event"] == "round" for event in RunDirectory(out).events())


def learned_of(out):
    """How many mini-batches of each client the server was told of."""
    counts = Counter()
    for event in RunDirectory(out).events():
        if event["event"] == "learned":
            counts[event["client"]] += event["batches"]
    return counts
