"""Compares memories by uncertainty with memories by chance, for docs/uncertainty.md.

    python scripts/uncertainty.py run --data DIR --datasets 20newsgroups,dbpedia --workers 16 \\
        --out runs/uncertainty.jsonl
    python scripts/uncertainty.py tables runs/uncertainty.jsonl

`run` writes one line of JSON for each run, and skips runs that the file has already, so it can be
stopped and started again. DIR has the datasets' files: `20newsgroups-minilm.npz` and
`dbpedia-minilm.npz` (arrays x_train, y_train, x_test, y_test), `tissuemnist.npz`, and the folder
`cifar-10-batches-py`. `tables` prints the tables of one or several such files, in Markdown.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch: workers have one thread each

import numpy as np
import torch

from ofcl import Run, make_settings
from ofcl.assembly.dealing import Loader, arrivals, build_shares
from ofcl.data.noise import noisy_train
from ofcl.evaluation import metrics
from ofcl.report.significance import Difference, paired_difference
from ofcl.settings.files import PROTOCOLS, parse_override

WEIGHTED = {"keep": "weighted", "rescore": "on-arrival"}
RESCORED = {"keep": "weighted", "rescore": "every-round"}
CURRENT = {"scoring_model": "current", "rescore": "every-batch"}
METHODS: dict[str, dict[str, Any]] = {
    "er": {"method": "er"},
    "cbr": {"method": "cbr"},
    "cbr-replay-class": {"method": "cbr", "replay_draw": "class"},
    "bi-bottom": {"method": "bi"},
    "bi-top": {"method": "bi", "keep": "top"},
    "bi-weighted": {"method": "bi", **WEIGHTED, "keep_beta": -0.5},
    "bi-weighted-certain": {"method": "bi", **WEIGHTED, "keep_beta": 0.5},
    "bi-rank": {"method": "bi", "score_scale": "rank"},
    "bi-weighted-rank": {"method": "bi", **WEIGHTED, "score_scale": "rank"},
    "bi-spread": {"method": "bi", "keep": "spread", "score_scale": "rank"},
    "bi-diverse": {"method": "bi", "keep": "diverse"},
    "bi-replay-key": {"method": "bi", **WEIGHTED, "keep_beta": 0.0, "replay_draw": "key"},
    "bi-weighted-current": {"method": "bi", **RESCORED, **CURRENT},
    "lc-bottom": {"method": "lc"},
    "loss-bottom": {"method": "loss"},
    "loss-rank": {"method": "loss", "score_scale": "rank"},
    "loss-weighted": {"method": "loss", **RESCORED, "keep_beta": 1.0},
    "loss-weighted-current": {"method": "loss", **RESCORED, **CURRENT, "keep_beta": 1.0},
    "loss-weighted-rank": {
        "method": "loss", **WEIGHTED, "keep_beta": 1.0, "score_scale": "rank",
    },
    "loss-weighted-hard": {"method": "loss", **RESCORED, "keep_beta": -0.5},
}  # fmt: skip
"""The methods by name; all are compared with `cbr`, which chooses by chance."""

NOISE: dict[str, dict[str, float]] = {
    "clean": {},
    "labels": {"label_noise": 0.2},
    "inputs": {"input_noise": 0.1},
}
"""Clean streams, a fifth of the labels wrong, a tenth of the inputs broken."""

MEMORIES = {
    "cifar10": (100, 200, 1000),
    "fashion-mini": (200,),
    "20newsgroups": (60, 200, 500),
    "dbpedia": (60, 200),
    "kc-cell": (200,),
}
"""The datasets by name, and the sizes of memories that each is run with."""

IMAGES = ("cifar10", "fashion-mini", "kc-cell")

JOB = ("dataset", "protocol", "memory", "noise", "method", "seed")
"""The values that tell one run from another."""


def settings_of(
    job: dict[str, Any], data: str | None, device: str, given: dict[str, Any]
) -> dict[str, Any]:
    """Returns the settings of a run by name.

    Args:
        job: The values in `JOB`, which tell one run from another.
        data: The folder of the datasets' files; None: where `ofcl` looks for datasets.
        device: The device for images; vectors are learned on the CPU.
        given: Settings of all runs that the command line gives.
    """
    name = job["dataset"]
    values: dict[str, Any] = {"dataset": name, "data_root": data}
    if name in ("20newsgroups", "dbpedia"):
        values = {"dataset": str(Path(data or ".") / f"{name}-minilm.npz")}
    values |= protocol_of(name, job["protocol"])
    values |= METHODS[job["method"]] | NOISE[job["noise"]]
    # A network for vectors is faster on a core than on a GPU, and there are more cores.
    where = device if name in IMAGES else "cpu"
    return values | {"memory": job["memory"], "seed": job["seed"], "device": where} | given


def protocol_of(dataset: str, protocol: str) -> dict[str, Any]:
    """Returns the settings that choose a protocol, and adapt it to a small dataset.

    Args:
        dataset: The dataset's name.
        protocol: The protocol's name.
    """
    if dataset == "fashion-mini" and protocol == "sound":  # as in `ofcl demo` when it was `sound`
        return {"protocol": protocol, "burn_in": 5, "steps": 1, "width": 8}
    if dataset == "fashion-mini" and protocol == "strong":  # as in `ofcl demo`
        return {"protocol": protocol, "model": "mlp"}
    return {"protocol": protocol}


LOAD = Loader()  # of this process: runs that follow each other read a dataset once


def run_one(
    job: dict[str, Any], data: str | None, device: str, given: dict[str, Any]
) -> dict[str, Any]:
    """Runs one job; returns its values and results, which become a line of the file.

    Args:
        job: The values in `JOB`, which tell one run from another.
        data: The folder of the datasets' files; None: where `ofcl` looks for datasets.
        device: The device for images; vectors are learned on the CPU.
        given: Settings of all runs that the command line gives.
    """
    torch.set_num_threads(1)
    values, began = settings_of(job, data, device, given), time.perf_counter()
    run = Run(make_settings(values), load=LOAD)
    for _ in run:
        pass
    result = run.result()
    ends = [metrics.to_its_end(matrix) for matrix in result.accuracy]
    unsaid = ("dataset", "data_root", "device", "seed", "memory")
    return {
        **job,
        "A": result.A,
        "F": result.F,
        "global_A": result.global_A,
        "global_F": result.global_F,
        "A_of_clients": [metrics.last_accuracy(matrix) for matrix in ends],
        "noisy_remembered": noisy_remembered(run),
        "rounds": result.rounds,
        "seconds": round(time.perf_counter() - began, 1),
        "settings": {name: value for name, value in values.items() if name not in unsaid},
    }


def noisy_remembered(run: Run) -> float | None:
    """Returns the share of noisy samples in all memories at the end of a run, in percent.

    Args:
        run: A run that has ended.

    Returns:
        The share; None: the streams were clean.
    """
    settings, noisy = run.settings, []
    if not (settings.label_noise or settings.input_noise):
        return None
    dataset = LOAD(settings)
    for client, share in zip(run.clients, build_shares(settings, dataset), strict=True):
        noise = {"label_noise": settings.label_noise, "input_noise": settings.input_noise}
        x, y, rows_of_tasks = noisy_train(dataset, share, client.number, settings.seed, **noise)
        came = arrivals(settings, share)
        rows = torch.from_numpy(np.concatenate(rows_of_tasks))
        wrong, broken = (y[rows] != dataset.y_train[came]), (x[rows] != dataset.x_train[came])
        of_stream = wrong | broken.flatten(1).any(1)
        noisy.append(of_stream[client.learner.memory.samples.id])
    return 100 * torch.cat(noisy).float().mean().item()


def chosen(given: str | None, known: dict | tuple) -> list[str]:
    """Returns the names that an option lists; ends the program if one is unknown.

    Args:
        given: The names, joined by commas; None: all that are known.
        known: The known names.
    """
    names = [*known] if given is None else given.split(",")
    if wrong := [name for name in names if name not in known]:
        raise SystemExit(f"unknown '{wrong[0]}'; expected some of: {', '.join(known)}")
    return names


def read_lines(paths: list[Path]) -> list[dict[str, Any]]:
    """Reads files of JSON lines; a line that was cut off by a crash is left out.

    Args:
        paths: The files; one that does not exist counts as empty.
    """
    lines = []
    for path in paths:
        for text in path.read_text().splitlines() if path.exists() else []:
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:
                print(f"{path}: a line that cannot be read is left out", file=sys.stderr)
    return lines


def run_all(options: argparse.Namespace) -> None:
    """Runs the jobs that the options ask for, except those whose results the file has already.

    Args:
        options: The options of the command `run`.
    """
    jobs = []
    for dataset in chosen(options.datasets, MEMORIES):
        memories = MEMORIES[dataset]
        if options.memories is not None:
            memories = tuple(int(size) for size in options.memories.split(","))
        jobs += [
            dict(zip(JOB, (dataset, protocol, memory, noise, method, seed), strict=True))
            for seed, protocol, memory, noise, method in itertools.product(
                [int(seed) for seed in options.seeds.split(",")],
                chosen(options.protocols, PROTOCOLS),
                memories,
                chosen(options.noise, NOISE),
                chosen(options.methods, METHODS),
            )
        ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    known = {tuple(line[name] for name in JOB) for line in read_lines([options.out])}
    jobs = [job for job in jobs if tuple(job.values()) not in known]
    print(f"{len(jobs)} runs, {len(known)} in {options.out} already", flush=True)
    with (
        options.out.open("a") as file,
        ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool,
    ):
        if options.out.stat().st_size and not options.out.read_text().endswith("\n"):
            file.write("\n")  # the last line was cut off; the next one begins anew
        began = time.perf_counter()
        where, given = (options.data, options.device), dict(map(parse_override, options.set))
        asked = {pool.submit(run_one, job, *where, given): job for job in jobs}
        for n, done in enumerate(as_completed(asked), 1):
            name = ", ".join(map(str, asked[done].values()))
            if (error := done.exception()) is not None:
                print(f"{n}/{len(jobs)} {name}: {type(error).__name__}: {error}", flush=True)
                continue
            line = done.result()
            file.write(json.dumps(line) + "\n")
            file.flush()
            spent = time.perf_counter() - began
            print(f"{n}/{len(jobs)} {name}: A {line['A']:.1f} F {line['F']:.1f}, "
                  f"{line['seconds']} s; {spent:.0f} s in all", flush=True)  # fmt: skip


Cell = tuple[str, str, int, str]
"""Dataset, protocol, memory, noise: what methods are compared within."""


def print_tables(paths: list[Path]) -> None:
    """Prints a table for each dataset, protocol and memory, and one over all of them.

    Args:
        paths: The files that `run` has written.
    """
    by_cell: dict[Cell, dict[str, dict[int, dict[str, Any]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for line in read_lines(paths):
        cell = (line["dataset"], line["protocol"], line["memory"], line["noise"])
        by_cell[cell][line["method"]][line["seed"]] = line
    differences = {
        (cell, method): less_chance(of_seeds, by_method.get("cbr", {}))
        for cell, by_method in by_cell.items()
        for method, of_seeds in by_method.items()
    }
    for dataset, protocol, memory in sorted({cell[:3] for cell in by_cell}):
        noises = [noise for noise in NOISE if (dataset, protocol, memory, noise) in by_cell]
        print(f"\n### {dataset}, `{protocol}`, M = {memory}\n")
        print(
            "| method | "
            + " | ".join(f"{n}: A / F (global A) | A less CBR's" for n in noises)
            + " |"
        )
        print("| --- |" + " --- | --- |" * len(noises))
        for method in METHODS:
            columns = []
            for noise in noises:
                cell = (dataset, protocol, memory, noise)
                columns += [means(by_cell[cell][method]), shown(differences.get((cell, method)))]
            if any(columns):
                print(f"| {method} | " + " | ".join(columns) + " |")
    print_summary(differences)


def less_chance(
    of_seeds: dict[int, dict[str, Any]], chance: dict[int, dict[str, Any]]
) -> Difference | None:
    """Returns A of a method less A of CBR.

    Args:
        of_seeds: The line of each run of the method, by seed.
        chance: The line of each run of CBR, by seed.

    Returns:
        The difference; None if the method is CBR, or if they have fewer than two seeds in common.
    """
    if of_seeds is chance:
        return None
    first, second = (
        {seed: line["A_of_clients"] for seed, line in lines.items()} for lines in (of_seeds, chance)
    )
    return paired_difference(first, second)


def means(of_seeds: dict[int, dict[str, Any]]) -> str:
    """Returns the means of A, F and global A over seeds, and the number of seeds, as text.

    If the streams were noisy, the share of noisy samples in the memories is in it too.

    Args:
        of_seeds: The line of each run of a method, by seed; none: the text is empty.
    """
    if not of_seeds:
        return ""
    names = ("A", "F", "global_A")
    a, f, g = (sum(line[n] for line in of_seeds.values()) / len(of_seeds) for n in names)
    noisy = [n for line in of_seeds.values() if (n := line.get("noisy_remembered")) is not None]
    share = f", {sum(noisy) / len(noisy):.0f} % noisy" if noisy else ""
    return f"{a:.1f} / {f:.1f} ({g:.1f}), {len(of_seeds)} seeds{share}"


def shown(difference: Difference | None) -> str:
    """Returns a difference with its interval as text, in bold if zero is outside of the interval.

    Args:
        difference: The difference; None: the text is empty.
    """
    if difference is None:
        return ""
    text = f"{difference.mean:+.1f} [{difference.low:+.1f}, {difference.high:+.1f}]"
    return f"**{text}**" if difference.real else text


def print_summary(differences: dict[tuple[Cell, str], Difference | None]) -> None:
    """Prints how often each method is better or worse than CBR, for each kind of noise.

    Args:
        differences: By dataset, protocol, memory and noise, and by method: A less that of CBR.
    """
    noises = [noise for noise in NOISE if any(cell[3] == noise for cell, _ in differences)]
    print("\n### All of them: mean difference to CBR, better / unclear / worse\n")
    print("| method | " + " | ".join(noises) + " |\n| --- |" + " --- |" * len(noises))
    for method in METHODS:
        columns = []
        for noise in noises:
            some = [d for (cell, name), d in differences.items()
                    if d is not None and name == method and cell[3] == noise]  # fmt: skip
            better, worse = sum(d.low > 0 for d in some), sum(d.high < 0 for d in some)
            mean = sum(d.mean for d in some) / max(len(some), 1)
            counts = f"{mean:+.1f}: {better} / {len(some) - better - worse} / {worse}"
            columns.append(counts if some else "")
        if any(columns):
            print(f"| {method} | " + " | ".join(columns) + " |")


def main() -> None:
    """Reads the command line, and runs the command `run` or `tables`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="runs what is not in the file yet")
    run.add_argument("--datasets", help=f"of {', '.join(MEMORIES)}; default: all")
    run.add_argument("--protocols", default="sound,strong", help="default: %(default)s")
    run.add_argument("--methods", help=f"of {', '.join(METHODS)}; default: all")
    run.add_argument("--memories", help="sizes; default: those of the dataset")
    run.add_argument("--noise", help=f"of {', '.join(NOISE)}; default: all")
    run.add_argument("--seeds", default="0,1,2,3,4", help="default: %(default)s")
    run.add_argument("--workers", type=int, default=1, help="processes; default: 1")
    run.add_argument("--device", default="auto", help="of images; vectors are learned on the CPU")
    run.add_argument("--data", help="folder of the datasets' files")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        help="a setting of all runs, key=value; may be repeated",
    )
    run.add_argument("--out", type=Path, required=True, help="file of the results, JSON lines")
    run.set_defaults(command=run_all)
    tables = commands.add_parser("tables", help="prints tables of what was run")
    tables.add_argument("files", type=Path, nargs="+")
    tables.set_defaults(command=lambda options: print_tables(options.files))
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
