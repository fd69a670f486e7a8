"""Measures what a secure sum costs: seconds at a party and at the server, bytes, for a round.

    python scripts/secure_cost.py --parties 3,10,50 --numbers 20000,1000000

Parties and server are in one process, one after the other, without a network; the keys are made
before. A party's seconds are the mean over the parties, for the four steps together. With `--lost`,
so many parties are lost after their shares, which is the dearest moment for the server.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter

import torch

from ofcl.federation.setup.keys import make_party_key
from ofcl.secure_sum.fixed_point import STEPS
from ofcl.secure_sum.identity import Identity
from ofcl.secure_sum.party_sum import PartySum, SumRules
from ofcl.secure_sum.server_sum import ServerSum
from ofcl.state import State, flatten, nbytes
from ofcl.update import Update


def size(message: State) -> int:
    """Counts the bytes of a message: its tensors, and the rest as JSON."""
    flat = flatten(message)
    return nbytes(flat.tensors) + len(json.dumps(flat.tree))


def measure(parties: int, numbers: int, lost: int) -> dict[str, float]:
    """Holds one sum, and checks its result.

    Args:
        parties: How many parties there are.
        numbers: The numbers of an update.
        lost: How many parties are lost after their shares.
    """
    names = [f"party-{k}" for k in range(parties)]
    keys = {name: make_party_key() for name in names}
    peers = {name: key.public for name, key in keys.items()}
    updates = [Update(k, {"w": torch.randn(numbers)}, 100, {}) for k in range(parties)]
    members = [
        PartySum(k, Identity(name, keys[name].private, peers), lambda: SumRules(0))
        for k, name in enumerate(names)
    ]
    server = ServerSum("ab", {"w": torch.zeros(numbers)}, names, classes=lambda: 2, seed=0)
    spent: Counter[str] = Counter()
    bytes_of: Counter[str] = Counter()
    server.begin(range(parties), 0, {})
    while not server.over:
        began = time.perf_counter()
        requests = server.requests()
        spent["server"] += time.perf_counter() - began
        for k, request in requests.items():
            if request["step"] == "masked" and k >= parties - lost:
                continue
            began = time.perf_counter()
            answer = members[k].answer("ab", request, updates[k], 1)
            answered = time.perf_counter()
            server.take(k, answer)
            spent["party"] += answered - began
            spent["server"] += time.perf_counter() - answered
            bytes_of["received"] += size(request)
            bytes_of["sent"] += size(answer)
        server.advance()
    began = time.perf_counter()
    (mean,) = server.result()
    spent["server"] += time.perf_counter() - began
    expected = torch.stack([u.state["w"] for u in updates[: parties - lost]]).double().mean(0)
    assert float((mean.state["w"] - expected).abs().max()) < parties / STEPS + 1e-6
    return {
        "party": spent["party"] / parties,
        "server": spent["server"],
        "sent": bytes_of["sent"] / parties,
        "received": bytes_of["received"] / parties,
    }


def main() -> None:
    """Prints the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parties", default="3,10,50")
    parser.add_argument("--numbers", default="20000,1000000")
    arguments = parser.parse_args()
    print("| parties | parameters | lost | s at a party | s at the server | kB sent by a party "
          "| of them more than plain | kB received |\n|" + " --- |" * 8)  # fmt: skip
    for numbers in map(int, arguments.numbers.split(",")):
        for parties in map(int, arguments.parties.split(",")):
            for lost in (0, parties // 3):
                found = measure(parties, numbers, lost)
                extra = (found["sent"] - 4 * numbers * (parties - lost) / parties) / 1000
                print(f"| {parties} | {numbers / 1e6:.2f} M | {lost} | {found['party']:.3f} "
                      f"| {found['server']:.3f} | {found['sent'] / 1000:.0f} | {extra:.0f} "
                      f"| {found['received'] / 1000:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
