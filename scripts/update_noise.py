"""Measures the noise that a party's policy adds to updates: what it hides, and what it costs.

    python scripts/update_noise.py hides
    python scripts/update_noise.py costs --set dataset=digits --seeds 3

`hides` plays the server: a hidden unit that one sample alone has moved shows that sample, as the
change of the unit's weights divided by that of its bias. A guess is counted if it is nearer to a
sample behind the update than the mean image is. It is tried on the change as it comes, and on the
change without its smaller singular values, which are mostly noise: the best of several ranks counts
(cut), though a server cannot know which it is. `costs` runs clients with noise on their updates
and without.
"""

from __future__ import annotations

import argparse
import math
import statistics
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.communication.sender import Sender
from ofcl.federation.party_side.own_data import open_source
from ofcl.privacy import veiled
from ofcl.settings.files import parse_override

NOISES = (0.0, 0.3, 1.0, 2.0)
RANKS = (1, 2, 3, 4, 6, 8, 16)  # of the change, when noise is cut off


def change_of(
    x: Tensor, y: Tensor, hidden: int, rounds: int, samples: int, noise: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Plays some rounds of one client, whose noisy changes the server adds up.

    Args:
        x: All samples (n, numbers).
        y: Their classes (n,).
        hidden: The hidden units of the network.
        rounds: How many updates leave; 16 samples of a memory of 20 are replayed in each but one.
        samples: The new samples behind each, learned in one step of SGD.
        noise: The noise on an update, as a multiple of its change.
        seed: The seed of everything.

    Returns:
        The change of each hidden unit's weights and bias, and the samples behind the updates.
    """
    draws = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, 10))
    order = torch.randperm(len(x), generator=draws)
    memory = order[-20:] if rounds > 1 else order[:0]
    used, total = [memory], [torch.zeros_like(p) for p in network.parameters()]
    for n in range(rounds):
        start = {name: p.detach().clone() for name, p in network.named_parameters()}
        used.append(new := order[n * samples : (n + 1) * samples])
        batch = torch.cat([new, memory[torch.randperm(len(memory), generator=draws)[:16]]])
        loss = F.cross_entropy(network(x[batch]), y[batch])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        own = {k: v - 0.1 * g for (k, v), g in zip(start.items(), gradients, strict=True)}
        sent = veiled(own, start, noise, lambda shape: torch.randn(shape, generator=draws))
        total = [t + sent[k] - start[k] for t, k in zip(total, start, strict=True)]
        network.load_state_dict(sent)
    return torch.cat([total[0], total[1][:, None]], dim=1), x[torch.cat(used)]


def guesses_of(change: Tensor, rank: int | None) -> Tensor:
    """Reads a sample out of the change of each hidden unit.

    Args:
        change: The changes of the weights and, in the last column, of the biases.
        rank: How many singular values are kept; None: all.
    """
    if rank is not None:
        spread = change.square().mean(0).sqrt()
        scale = torch.ones_like(spread)
        scale[-1] = spread[:-1].square().mean().sqrt() / spread[-1]
        u, s, v = torch.linalg.svd(change * scale, full_matrices=False)
        change = (u[:, :rank] * s[:rank]) @ v[:rank] / scale
    weight, bias = change[:, :-1], change[:, -1]
    moved = bias.abs() > 1e-6
    return weight[moved] / bias[moved, None]


def hides(seeds: int) -> None:
    """Prints how near guesses come to samples, by noise."""
    dataset = open_source({"dataset": "digits"}, True, lambda _: None)._dataset
    x, y = dataset.prepare(dataset.x_train).flatten(1), dataset.y_train
    mean = x.mean(0, keepdim=True)
    print(
        "| units | updates | samples each | noise | guesses | right | nearer | best | best, cut |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for hidden in (64, 512):
        for rounds, samples in ((1, 16), (1, 128), (10, 16), (100, 12)):
            for noise in NOISES:
                count = right = nearer = 0
                best = cut = math.inf
                for seed in range(seeds):
                    change, truth = change_of(x, y, hidden, rounds, samples, noise, seed)
                    limit = torch.cdist(mean, truth).min()
                    near = {rank: torch.cdist(guesses_of(change, rank), truth).min(dim=1).values
                            / limit for rank in (None, *RANKS)}  # fmt: skip
                    count += len(near[None])
                    right += int((near[None] < 0.01).sum())
                    nearer += int((near[None] < 1).sum())
                    best = min(best, float(near[None].min()))
                    cut = min(cut, *(float(near[rank].min()) for rank in RANKS))
                print(f"| {hidden} | {rounds} | {samples} | {noise:g} | {count:,} | {right} | "
                      f"{nearer} | {best:.2f} | {cut:.2f} |", flush=True)  # fmt: skip


class NoisySender(Sender):
    """A sender whose client is in a run on one machine, where nobody asks for noise."""

    share = 0.0

    def __init__(self, *how: Any) -> None:
        super().__init__(*how)
        self.noise = self.share


def costs(given: dict[str, Any], seeds: int) -> None:
    """Prints accuracies without noise and with it."""
    import ofcl.client

    ofcl.client.Sender = NoisySender  # type: ignore[misc]
    print("| noise | A | validation |")
    print("| --- | --- | --- |")
    for NoisySender.share in (0.0, 2.0, 3.0):
        results = [ofcl.run(**{**given, "seed": seed}) for seed in range(seeds)]
        told = [statistics.fmean(value for r in results if (value := getattr(r, name)) is not None)
                for name in ("A", "validation_A")]  # fmt: skip
        print(f"| {NoisySender.share:g} | {told[0]:.1f} | {told[1]:.1f} |", flush=True)


def main() -> None:
    """Measures what noise hides, or what it costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("hides", "costs"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    if given.what == "hides":
        hides(given.seeds)
    else:
        values = dict(parse_override(text) for text in given.set)
        costs({"clients": 3, **values}, given.seeds)


if __name__ == "__main__":
    main()
