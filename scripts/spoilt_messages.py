"""Spoils many messages of a federation in one process: does anything change, and who is named?

    python scripts/spoilt_messages.py --answers 500 --requests 100 --introductions 100

Prints how many kinds there were, whether the run ended with the model of a clean run, who was
named, and the most memory that the process has taken. Everything that is drawn comes from the seed.
"""

import argparse
import random
import resource
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from ofcl.engines.rejection import Rejected
from ofcl.federation.terms import unpack_introduction
from tests.support.federation import SMALL, InProcess, hosted, member, members
from tests.support.remote import over_the_wire
from tests.support.spoiling_run import SpoiltMessages
from tests.support.spoilt_messages import spoil_introduction


def main() -> None:
    """Runs a clean federation and a spoilt one, and compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("answers", 500), ("requests", 100), ("introductions", 100), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    spoiling = SpoiltMessages(
        members(folder / "spoilt"), given.answers, given.requests, given.seed, at_once=100
    )
    run, said = hosted(folder, spoiling)
    spoiling.engine = lambda: run.engine
    events = list(run)
    clean, _ = hosted(folder, InProcess(members(folder / "clean")), SMALL)
    same = list(clean) == events and all(
        torch.equal(value, clean.server.model[name]) for name, value in run.server.model.items()
    )
    rejected = [line for line in said if line.startswith("rejected what hospital-c has sent")]
    print(f"answers: {sum(spoiling.answered.values())} of {len(spoiling.answered)} kinds")
    print(f"  rejected, with the culprit's name: {len(rejected)}")
    print(f"requests: {sum(spoiling.requested.values())} of {len(spoiling.requested)} kinds")
    print(f"  followed by the party: {len(spoiling.obeyed)} {sorted(set(spoiling.obeyed))}")
    print(f"introductions rejected: {rejected_introductions(folder, given)}")
    print(f"the run has ended in {run.server.round} rounds, as a clean one: {same}")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"most memory: {most:.2f} GB (server and parties together)")


def rejected_introductions(folder: Path, given: argparse.Namespace) -> str:
    """Counts the spoilt introductions that the server rejects."""
    right, draw = member(folder / "intro", 0).answer({}), random.Random(given.seed)
    kinds, rejected = set(), 0
    for _ in range(given.introductions):
        state = over_the_wire(right)
        kinds.add(spoil_introduction(state, draw))
        try:
            unpack_introduction(state)
        except Rejected:
            rejected += 1
    return f"{rejected} of {given.introductions}, {len(kinds)} kinds"


if __name__ == "__main__":
    main()
