"""Measures how long captured steps and scores take on a GPU if the CPU only replays them.

    python scripts/replay_alone.py

Beside `ofcl bench`, this shows how much of a mini-batch's time is left to gain on the CPU's side.
"""

import time

import torch

from ofcl.bench.workload import Bench, Workload

ROUNDS, TIMES = 10, 100


def replays_of(client) -> list:
    """Returns the CUDA graphs of a client's mini-batch: that of scores, then that of steps.

    Args:
        client: The client; without scores, it has the graph of its steps alone.
    """
    scorer = client.learner.memory.policy.scorer
    captured = [] if scorer is None else [scorer._captured]
    return [[*one._recordings.values()][-1].graph for one in (*captured, client.learner._captured)]


def main() -> None:
    """Prints the milliseconds of a client's mini-batch: the whole, and its CUDA graphs alone."""
    for method in ("er", "bi"):
        bench = Bench(Workload(method))
        bench.run(ROUNDS)
        whole = bench.milliseconds(seconds=1.0)
        graphs = [(client.number, replays_of(client)) for client in bench.clients]
        torch.cuda.synchronize()
        for _ in range(2):  # the first time warms up
            start = time.perf_counter()
            for _ in range(TIMES):
                for number, own in graphs:
                    with bench.engine._lanes.of(number):
                        for graph in own:
                            graph.replay()
            torch.cuda.synchronize()
            spent = time.perf_counter() - start
        print(f"{method}: {whole:.2f} ms, replays alone {1e3 * spent / TIMES / len(graphs):.2f} ms")


if __name__ == "__main__":
    main()
