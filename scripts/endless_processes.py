"""Measures memory and disk of a federation of real processes over streams, round by round.

    python scripts/endless_processes.py --rounds 2000 --large 65536

As `endless_run.py`, but with a server, a run and two parties in processes of their own, over TLS
on this machine. Memory is that of each process with all that it has started (PSS: what is shared
counts in parts). The server's is with Flower's own state, where messages lie until fetched.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from pathlib import Path

from compare_rounds import CREATE, Version, wait_for_server
from endless_run import PARTIES, SETTINGS, size, write_stream

# The package's own size of files that are put aside is one that so small rounds would not reach.
SMALL_FILES = (
    "import sys; from ofcl.federation.party_side import audit_files; "
    "from ofcl.storage import event_files; "
    "event_files.LARGE = audit_files.LARGE = int(sys.argv[1]); "
    "audit_files.KEPT = event_files.KEPT; "
    "from ofcl.cli.main import main; sys.argv[1:2] = ['federation']; main()"
)


def memory(root: int) -> float:
    """Gives the memory of a process and of all that it has started, in MB.

    Args:
        root: The id of the process.
    """
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, before = {root}, set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent in found}
    kilobytes = 0
    for process in found:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1000


def rounds_so_far(out: Path) -> int:
    """Gives the number of the last round of a run.

    Args:
        out: The run directory.
    """
    last = 0
    for path in out.glob("events*.jsonl"):
        for line in path.read_text().splitlines()[-30:]:
            if '"round"' in line and line.endswith("}"):
                event = json.loads(line)
                last = max(last, event["round"] if event["event"] == "round" else 0)
    return last


def main() -> None:
    """Runs, and prints a row of a table every tenth of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--large", type=int, default=65536)
    given = parser.parse_args()
    version = Version(Path(__file__).parent.parent)
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        place, folder = Path(name), Path(name) / "trial"
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        if version.spawn("-c", CREATE, folder, port, *PARTIES).wait() != 0:
            sys.exit("no federation could be set up")
        values = {**SETTINGS, "patience": 60.0}
        made = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        (place / "run.toml").write_text(made)

        def ofcl(*words: object) -> int:
            processes.append(version.spawn("-c", SMALL_FILES, given.large, *words))
            return processes[-1].pid

        processes: list = []
        try:
            roots = {"server": ofcl("server", folder)}
            wait_for_server(port)
            for number, party in enumerate(PARTIES):
                (folder / party / "policy.toml").unlink(missing_ok=True)  # the rounds are small
                stream = write_stream(place / "data" / party, number, 16 * given.rounds + 4000)
                roots[party] = ofcl("client", folder / party, "--dataset", stream,
                                    "--label", "label", "--set", "window=40")  # fmt: skip
            out = place / "run"
            roots["run"] = ofcl("start", folder, place / "run.toml", "--out", out, "-q")
            watch(given.rounds, roots, out, folder, processes)
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


def watch(rounds: int, roots: dict[str, int], out: Path, folder: Path, processes: list) -> None:
    """Prints a row of the table whenever a tenth of the rounds is over.

    Args:
        rounds: How many rounds there are to be.
        roots: The ids of the processes by their names.
        out: The run directory.
        folder: The folder of the federation.
        processes: The processes; one that ends too early ends the measurement.
    """
    one = PARTIES[0]
    print("| round | MB: server | run | a party | disk, kB: run directory | server | a party "
          "| s a round |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    began, last, steps = (
        time.perf_counter(),
        0,
        [50, *range(rounds // 10, rounds + 1, rounds // 10)],
    )
    for step in steps:
        while (now := rounds_so_far(out)) < step:
            if any(process.poll() is not None for process in processes):
                sys.exit(f"a process has ended at round {now}")
            time.sleep(0.5)
        if now == last:
            continue
        took = (time.perf_counter() - began) / (now - last)
        held = {name: memory(roots[name]) for name in ("server", "run", one)}
        print(f"| {now} | {held['server']:.0f} | {held['run']:.0f} | {held[one]:.0f} | "
              f"{size(out):.0f} | {size(folder / 'server'):.0f} | {size(folder / one):.0f} | "
              f"{took:.2f} |", flush=True)  # fmt: skip
        began, last = time.perf_counter(), now


if __name__ == "__main__":
    main()
