"""Compares two versions of the package: what a round between real processes costs.

    python scripts/compare_rounds.py BEFORE NOW --pairs 5 --hidden 270

`BEFORE` and `NOW` are checkouts. The two are run in turns with the same Python and the same
installed packages: a server and three parties over TLS on this machine, everything off. Seconds are
the medians over a run's rounds; processor seconds are those of all its processes together,
divided by its rounds. The last row has the median of the ratios, and the least and the most.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTIES = ("a", "b", "c")
FIRST = 5  # rounds that are not counted: processes start
TICK = os.sysconf("SC_CLK_TCK")
CREATE = (
    "import sys; from pathlib import Path; "
    "from ofcl.federation.setup.folders import Federation; "
    "from ofcl.federation.setup.organiser import create; "
    "create(Path(sys.argv[1]), Federation('rounds', tuple(sys.argv[3:]), ('127.0.0.1',),"
    " int(sys.argv[2])))"
)


def settings(hidden: int, rounds: int) -> str:
    """Returns a settings file with which a party learns one mini-batch of 16 in each round.

    Args:
        hidden: The hidden units of the network.
        rounds: The number of rounds.
    """
    values = {"method": "none", "model": "mlp", "hidden": hidden, "tasks": 1, "q": 1, "burn_in": 0,
              "batch_size": 16, "steps": 1, "limit": rounds, "optimizer": "sgd",
              "min_clients": len(PARTIES)}  # fmt: skip
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def processor_seconds(roots: list[int]) -> float:
    """Returns the processor seconds of processes and their descendants, ended children included.

    Args:
        roots: The ids of the processes.
    """
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        seconds[number] = sum(map(int, fields[11:15])) / TICK
    found, before = set(roots), set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return sum(seconds.get(number, 0.0) for number in found)


class Version:
    """A checkout of the package, whose commands are run as processes.

    Args:
        tree: The checkout.
    """

    def __init__(self, tree: Path) -> None:
        threads = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree.resolve())}
        self._environment = {**os.environ, **threads}

    def spawn(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Starts Python with these arguments.

        Args:
            arguments: The words after `python`.
        """
        return subprocess.Popen([sys.executable, *map(str, arguments)], cwd="/",
                                env=self._environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)  # fmt: skip

    def ofcl(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Starts a command of `ofcl federation`.

        Args:
            arguments: The words after `ofcl federation`.
        """
        return self.spawn("-m", "ofcl.cli.main", "federation", *arguments)


def wait_for_server(port: int) -> None:
    """Waits until the server listens.

    Args:
        port: The port on which it will.
    """
    for _ in range(3000):  # a busy machine takes minutes
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit("the server does not start")


def rounds_of(out: Path) -> list[float]:
    """Lists when each round of a run was over, in seconds since its beginning.

    Args:
        out: The run directory.
    """
    file = out / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("}")]
    return [event["seconds"] for event in events if event["event"] == "round"]


def measure(tree: Path, hidden: int, rounds: int) -> tuple[float, float]:
    """Runs a federation once; returns a round's median seconds and its processor seconds.

    Args:
        tree: The checkout whose package is run.
        hidden: The hidden units of the network.
        rounds: The number of rounds.
    """
    version = Version(tree)
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        folder, made, out = (Path(name) / each for each in ("trial", "run.toml", "run"))
        made.write_text(settings(hidden, rounds))
        if version.spawn("-c", CREATE, folder, port, *PARTIES).wait() != 0:
            sys.exit(f"{tree}: no federation could be set up")
        processes = [version.ofcl("server", folder)]
        for party in PARTIES:
            processes.append(version.ofcl("client", folder / party, "--dataset", "digits"))
        try:
            wait_for_server(port)
            start = version.ofcl("start", folder, made, "--out", out, "-q")
            every = [start.pid, *(process.pid for process in processes)]
            begun = spent = None
            while start.poll() is None:
                done = len(rounds_of(out))
                if begun is None and done >= FIRST:
                    begun = done, processor_seconds(every)
                elif begun is not None and done >= rounds - 1:
                    spent = done, processor_seconds(every)
                    break
                time.sleep(0.1)
            if start.wait() != 0 or begun is None or spent is None:
                sys.exit(f"{tree}: the run has failed, or has too few rounds")
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
                process.wait()
        seconds = [after - before for before, after in itertools.pairwise(rounds_of(out)[FIRST:])]
    return statistics.median(seconds), (spent[1] - begun[1]) / (spent[0] - begun[0])


def main() -> None:
    """Measures the two versions in turns, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("now", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=270, help="hidden units of the network")
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    print("| pair | s before | s now | ratio | processor s before | now | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ratios: list[tuple[float, float]] = []
    for pair in range(given.pairs):
        trees = (given.before, given.now)
        found = {}
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            found[which] = measure(trees[which], given.hidden, given.rounds)
        (wall, used), (wall_now, used_now) = found[0], found[1]
        ratios.append((wall_now / wall, used_now / used))
        print(f"| {pair + 1} | {wall:.3f} | {wall_now:.3f} | {ratios[-1][0]:.2f} | {used:.3f} | "
              f"{used_now:.3f} | {ratios[-1][1]:.2f} |", flush=True)  # fmt: skip
    told = [f"{statistics.median(kind):.2f} ({min(kind):.2f} to {max(kind):.2f})"
            for kind in zip(*ratios, strict=True)]  # fmt: skip
    print(f"| median | | | {told[0]} | | | {told[1]} |")


if __name__ == "__main__":
    main()
