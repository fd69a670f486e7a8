"""Measures how much one bad client of five harms each aggregation: accuracy A on `digits`.

    python scripts/robust_averaging.py --seeds 0,1,2

The bad client's updates are spoilt on their way to the server. Flipped × 5: five times as far from
the global model, in the opposite direction. Noise: the global model with normal noise of deviation
1. 10⁹ samples: the update flipped, not lengthened, with that weight. A is the mean over the four
honest clients.

    python scripts/robust_averaging.py --why

prints what FedAvg does if client 0 is honest, is left out of every average, or sends the global
model back as it is: why robust rules do better with a bad client than without.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

import ofcl
from ofcl.models.head import grown, width
from ofcl.seeds import generator
from ofcl.server import Server
from ofcl.state import Tensors
from ofcl.update import Update

SETTINGS = {
    "protocol": "sound", "dataset": "digits", "clients": 5, "method": "er", "memory": 100,
    "model": "mlp", "burn_in": 0, "q": 2,
}  # fmt: skip
AGGREGATIONS = ("fedavg", "trimmed-mean", "median", "krum", "geometric-median")
BAD = 0  # the number of the bad client

Attack = Callable[[Update, Tensors, torch.Generator], Update | None]


def away(update: Update, model: Tensors, factor: float) -> Update:
    """Moves an update: the global model plus a multiple of the update's distance from it."""
    start = grown(model, width(update.state), 0)
    state = {n: start[n] + factor * (value - start[n]) for n, value in update.state.items()}
    return replace(update, state=state)


def noise(update: Update, model: Tensors, draw: torch.Generator) -> Update:
    """Replaces an update by the global model with noise."""
    plain = away(update, model, 0.0)
    state = {n: v + torch.randn(v.shape, generator=draw) for n, v in plain.state.items()}
    return replace(plain, state=state)


ATTACKS: dict[str, Attack | None] = {
    "none": None,
    "flipped × 5": lambda update, model, draw: away(update, model, -5.0),
    "noise": noise,
    "10⁹ samples": lambda update, model, draw: replace(away(update, model, -1.0), samples=10**9),
}


REASONS: dict[str, Attack | None] = {
    "honest": None,
    "left out": lambda update, model, draw: None,
    "stands still": lambda update, model, draw: away(update, model, 0.0),
}


def spoil(server: Server, attack: Attack, seed: int) -> None:
    """Lets the bad client's updates reach the server spoilt."""
    honest, draw = server.aggregate, generator(seed, "attack")

    def aggregate(updates: Sequence[Update]) -> Tensors:
        came = [attack(u, server.model, draw) if u.client == BAD else u for u in updates]
        return honest([update for update in came if update is not None])

    server.aggregate = aggregate  # type: ignore[method-assign]


def accuracy(aggregation: str, attack: Attack | None, seed: int) -> float:
    """Runs the experiment once; gives A of the honest clients, in percent."""
    run = ofcl.Run(ofcl.make_settings({**SETTINGS, "aggregation": aggregation, "seed": seed}))
    if attack is not None:
        spoil(run.server, attack, seed)
    try:
        for _ in run:
            pass
    except ofcl.OfclError as error:
        if "not finite" not in str(error):
            raise
        return float("nan")
    rows = [tasks[-1] for k, tasks in enumerate(run.result().accuracy) if k != BAD]
    means = [statistics.fmean(value for value in row if value is not None) for row in rows]
    return statistics.fmean(means)


def main() -> None:
    """Prints the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0,1,2", help="the seeds, with commas")
    parser.add_argument("--why", action="store_true", help="FedAvg with and without client 0")
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    attacks = REASONS if given.why else ATTACKS
    print(f"| aggregation | {' | '.join(attacks)} |\n|{' --- |' * (len(attacks) + 1)}")
    for aggregation in AGGREGATIONS[:1] if given.why else AGGREGATIONS:
        cells = []
        for attack in attacks.values():
            found = [accuracy(aggregation, attack, seed) for seed in seeds]
            cells.append(f"{statistics.fmean(found):.1f}")
        print(f"| {aggregation} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
