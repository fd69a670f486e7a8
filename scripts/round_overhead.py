"""Measures the seconds of a round with hardly anything to learn: what an engine costs.

    python scripts/round_overhead.py simulation --clients 5,50,200
    python scripts/round_overhead.py deployment

A client learns one mini-batch of one sample in each round. Beside the simulation, the local engine
is timed with the same settings. Peak memory is that of all processes of the run together
(proportional set size).
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from ofcl.federation.setup.folders import Federation
from ofcl.federation.setup.organiser import create
from ofcl.settings.files import to_toml
from ofcl.storage.run_directory import RunDirectory

SMALL, LARGE = 270, 14_000  # hidden units: 20 thousand parameters, and a million
PARTIES = ("a", "b", "c")
OPTIMIZER = "sgd"  # as for the paper's network of that size; Adam would have more to save


def settings(hidden: int, rounds: int) -> dict[str, object]:
    """Returns settings with which a client learns one sample in each round.

    Args:
        hidden: The hidden units of the network.
        rounds: The number of rounds.
    """
    return {"method": "none", "model": "mlp", "hidden": hidden, "tasks": 1, "q": 1, "burn_in": 0,
            "batch_size": 1, "steps": 1, "limit": rounds, "optimizer": OPTIMIZER}  # fmt: skip


def between_rounds(run: Path) -> list[float]:
    """Lists the seconds between the rounds of a run; the first is left out, as processes start."""
    times = [event["seconds"] for event in RunDirectory(run).events() if event["event"] == "round"]
    return [after - before for before, after in itertools.pairwise(times[1:])]


class Memory:
    """Measures the peak memory of processes and all their descendants, in a thread.

    Args:
        roots: The ids of the processes.
    """

    def __init__(self, *roots: int) -> None:
        self.roots, self.peak, self._over = roots, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        """Notes the peak memory of the processes, once a second, until `stop` is called."""
        while not self._over.wait(1.0):
            total = sum(_pss(process) for process in _family(self.roots))
            self.peak = max(self.peak, total)

    def stop(self) -> float:
        """Stops measuring; returns the peak in GB."""
        self._over.set()
        self._thread.join()
        return self.peak / 2**20


def _family(roots: tuple[int, ...]) -> set[int]:
    """Returns the ids of processes and of all their descendants.

    Args:
        roots: The ids of the processes.
    """
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found, before = set(roots), set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def _pss(process: int) -> int:
    """Returns the memory of a process in KB (proportional set size); 0 if it has ended.

    Args:
        process: The id of the process.
    """
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pss:")))


def ofcl(*arguments: object) -> subprocess.Popen[bytes]:
    """Starts a command of `ofcl` as a process, and returns the process.

    Args:
        arguments: The words of the command line after `ofcl`.
    """
    command = [sys.executable, "-m", "ofcl.cli.main", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip


def one(folder: Path, engine: str, clients: int, hidden: int, rounds: int) -> str:
    """Measures one engine; returns a row of the table.

    Args:
        folder: A folder for the run.
        engine: The name of the engine.
        clients: The number of clients.
        hidden: The hidden units of the network.
        rounds: The number of rounds.
    """
    out, made = folder / f"{engine}-{clients}-{hidden}", folder / "run.toml"
    made.write_text(to_toml(settings(hidden, rounds)))
    process = ofcl("run", made, "--dataset", "digits", "--clients", clients, "--engine", engine,
                   "--out", out, "-q")  # fmt: skip
    memory = Memory(process.pid)
    if process.wait() != 0:
        sys.exit(f"{engine} with {clients} clients has failed")
    return told(engine, clients, hidden, between_rounds(out), memory.stop())


def told(engine: str, clients: int, hidden: int, seconds: list[float], memory: float) -> str:
    """Returns a row of the table.

    Args:
        engine: The name of the engine.
        clients: The number of clients.
        hidden: The hidden units of the network.
        seconds: The seconds of each round.
        memory: The peak memory in GB.
    """
    parameters = 64 * hidden + hidden + 11 * hidden
    middle, most = statistics.median(seconds), max(seconds)
    mean = statistics.mean(seconds)
    return (f"| {engine} | {clients} | {parameters / 1e6:.2f} M | {len(seconds)} | {mean:.3f} | "
            f"{middle:.3f} | {most:.3f} | {memory:.2f} |")  # fmt: skip


def simulation(counts: list[int], rounds: int) -> None:
    """Measures the simulation and the local engine, and prints a row for each.

    Args:
        counts: The numbers of clients to measure with.
        rounds: The number of rounds.
    """
    with tempfile.TemporaryDirectory() as name:
        for clients in counts:
            for hidden in (SMALL, LARGE) if clients <= 5 else (SMALL,):
                for engine in ("local", "flower-sim"):
                    print(one(Path(name), engine, clients, hidden, rounds), flush=True)


def deployment(rounds: int) -> None:
    """Measures a federation of three parties on this machine, and prints a row.

    Args:
        rounds: The number of rounds.
    """
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        folder, made = Path(name) / "federation", Path(name) / "run.toml"
        create(folder, Federation("overhead", PARTIES, ("127.0.0.1",), port))
        for party in PARTIES:  # a round of one sample is refused by the usual policy
            (folder / party / "policy.toml").write_text("min_samples = 1\n", encoding="utf-8")
        processes = [ofcl("federation", "server", folder)]
        for party in PARTIES:
            processes.append(
                ofcl("federation", "client", folder / party, "--dataset", "digits", "--share")
            )
        try:
            for hidden in (SMALL, LARGE):
                out = Path(name) / str(hidden)
                made.write_text(to_toml({**settings(hidden, rounds), "min_clients": 3}))
                start = ofcl("federation", "start", folder, made, "--out", out, "-q")
                memory = Memory(start.pid, *(process.pid for process in processes))
                if start.wait() != 0:
                    sys.exit("the run has failed")
                seconds = between_rounds(out)
                print(told("deployment", 3, hidden, seconds, memory.stop()), flush=True)
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
                process.wait()


def main() -> None:
    """Measures what the command line asks for, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["simulation", "deployment"])
    parser.add_argument("--clients", default="5,50,200")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    print("| engine | clients | parameters | rounds | mean, s | median, s | most, s | memory, GB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    started = time.monotonic()
    if given.what == "simulation":
        simulation([int(count) for count in given.clients.split(",")], given.rounds)
    else:
        deployment(given.rounds)
    print(f"{time.monotonic() - started:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()
