"""Measures memory and disk of a federation over streams, round by round, in one process.

    python scripts/endless_run.py --rounds 2000 --large 65536

Server and two parties are in this process, each with its folder as in a real federation; messages
go by memory. `--large` is the size at which files of events and of the audit are put aside; the
package's own is 16 MiB, which 2,000 small rounds would not reach.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path

import numpy as np

from ofcl.events import Round
from ofcl.experiment import Run
from ofcl.federation.party_side import audit_files
from ofcl.federation.party_side.member import Member
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_status import PartyStatus
from ofcl.federation.server_side.noted_transport import NotedTransport
from ofcl.federation.server_side.run_status import RunStatus
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import Federation, ServerFolder
from ofcl.federation.transport import Delivery
from ofcl.state import Flat, State, flatten, unflatten
from ofcl.storage import event_files

PARTIES = ("one", "two")
SETTINGS = {"protocol": "sound", "method": "bi", "memory": 40, "model": "mlp", "hidden": 16,
            "burn_in": 2, "q": 1, "batch_size": 16, "steps": 1, "min_clients": 2,
            "patience": 1.0, "dp_clip": 1.0, "dp_noise": 4.0}  # fmt: skip


class InMemory:
    """Carries messages between a server and parties in one process (a `Transport`)."""

    def __init__(self, members: dict[int, Member]) -> None:
        self._members, self._sent, self._count = members, dict[str, tuple[int, State]](), 0

    def connected(self) -> dict[int, str]:
        """Lists all parties."""
        return dict.fromkeys(self._members, "1")

    def send(self, party: int, content: State) -> str:
        """Keeps a message until `fetch`."""
        self._count += 1
        self._sent[str(self._count)] = party, _plain(content)
        return str(self._count)

    def fetch(self, messages: list[str]) -> dict[str, Delivery]:
        """Lets the parties answer."""
        return {message: Delivery(_plain(self._answer(message))) for message in messages}

    def _answer(self, message: str) -> Flat:
        party, content = self._sent.pop(message)
        return self._members[party].answer(content)

    def close(self) -> None:
        """Does nothing."""


def _plain(content: State | Flat) -> State:
    """Copies a message as the network would."""
    flat = flatten(content)
    return unflatten({name: tensor.clone() for name, tensor in flat.tensors.items()}, flat.tree)


def write_stream(folder: Path, seed: int, rows: int) -> str:
    """Writes a party's stream, a table of so many rows, and gives its name."""
    draw = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    lines = ["v,w,label"]
    for _ in range(rows):
        ill = draw.random() < 0.5
        v, w = draw.normal(2 * ill, 1, 2)
        lines.append(f"{v:.4f},{w:.4f},{'ill' if ill else 'well'}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"watch:{folder}"


def memory() -> float:
    """Gives the memory of this process, in MB."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def size(folder: Path) -> float:
    """Gives the size of all files in a folder, in kB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1000


def main() -> None:
    """Runs, and prints a row of a table every tenth of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--large", type=int, default=65536)
    given = parser.parse_args()
    event_files.LARGE = audit_files.LARGE = given.large
    audit_files.KEPT = event_files.KEPT
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place), given.rounds)


def measure(place: Path, rounds: int) -> None:
    """Makes the run in a folder, and prints the table."""
    members = {}
    for number, name in enumerate(PARTIES):
        stream = write_stream(place / "data" / name, number, 16 * rounds + 4000)
        (place / name).mkdir()
        source = open_source(
            {"dataset": stream, "label": "label", "window": 40}, False, lambda line: None
        )
        status = PartyStatus(place / name)
        members[number] = Member(place / name, name, number, source, status=status,
                                 tell=status.told(lambda line: None))  # fmt: skip
    federation = Federation("endless", PARTIES, ("127.0.0.1",), 8000)
    (place / "server").mkdir()
    noted = RunStatus(ServerFolder(place, federation), place / "run")
    transport = NotedTransport(InMemory(members), noted)
    stage = FederationStage(federation, place, transport, introduced=noted.introduced)
    run = Run(run_settings(federation, SETTINGS), out=place / "run", stage=stage,
              tell=noted.told(lambda line: None))  # fmt: skip
    print("| round | memory, MB | run directory, kB | a party's folder, kB | s a round |")
    print("| --- | --- | --- | --- | --- |")
    began, last = time.perf_counter(), 0
    for event in run:
        if isinstance(event, Round) and (event.round == 50 or event.round % (rounds // 10) == 0):
            took = (time.perf_counter() - began) / (event.round - last)
            print(f"| {event.round} | {memory():.0f} | {size(place / 'run'):.0f} | "
                  f"{size(place / 'one'):.0f} | {took:.3f} |", flush=True)  # fmt: skip
            began, last = time.perf_counter(), event.round
            if event.round >= rounds:
                break


if __name__ == "__main__":
    main()
