"""Measures what idle parties cost the server: seconds of a core in each second.

    python scripts/idle_parties.py --parties 50 --seconds 60

Starts a server over TLS, and connects parties with keys of their own that do what idle parties do
(`flower_connection`): they look for messages as often as after a long time without one, and send
heartbeats. They are threads of this process; only the server's processor time is counted.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from ofcl.federation.party_side import flower_connection
from ofcl.federation.party_side.flower_calls import RunOver
from ofcl.federation.setup.folders import Federation
from ofcl.federation.setup.organiser import create


def processor_time(process: int) -> float:
    """Reads the seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(folder: Path, address: str, leaving: threading.Event, connected: list[str]) -> None:
    """Takes part as a party that gets no message."""
    authority, key = (folder / "ca.crt").read_bytes(), (folder / "key").read_bytes()
    connection = flower_connection.FlowerConnection(
        address, authority, key, folder, lambda _: None, leaving
    )
    try:
        with connection:
            connected.append(folder.name)
            connection.serve(lambda message: message, lambda: None)
    except RunOver:
        pass


def main() -> None:
    """Prints the server's load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parties", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = tuple(f"party-{n}" for n in range(given.parties))
    folder = Path(tempfile.mkdtemp()) / "federation"
    create(folder, Federation("idle", names, ("127.0.0.1",), port))
    flower_connection.pause_after = lambda idle: flower_connection.LOOK_AGAIN_IDLE
    server = subprocess.Popen(
        [sys.executable, "-m", "ofcl.cli.main", "federation", "server", str(folder)],
        stderr=subprocess.DEVNULL,
    )
    leaving, connected = threading.Event(), []
    for name in names:
        how = (folder / name, f"127.0.0.1:{port}", leaving, connected)
        threading.Thread(target=idle, args=how, daemon=True).start()
    try:
        until = time.monotonic() + 240
        while len(connected) < given.parties and time.monotonic() < until:
            time.sleep(0.5)
        time.sleep(5)
        began, before = time.monotonic(), processor_time(server.pid)
        time.sleep(given.seconds)
        took, passed = processor_time(server.pid) - before, time.monotonic() - began
        print(f"{len(connected)} idle parties: {took / passed:.3f} of a core in {passed:.0f} s")
    finally:
        leaving.set()
        server.terminate()
        server.wait(20)
    os._exit(0)  # threads may be in a call


if __name__ == "__main__":
    main()
