"""Tries ways to learn from the vectors of a pretrained network, by accuracy on validation data.

    python scripts/backbone_recipe.py cifar10 --memory 200 --seeds 0,1,2
    python scripts/backbone_recipe.py fashion-mini --memory 40 --seeds 0,1 --only standardised,unit

Images are embedded once, and kept in the data folder. A line for each way: the mean over seeds of
the accuracy on validation samples, which are set aside from the train samples. Nothing is chosen by
the test part; `--test` prints A and F too, for the way that was chosen.
"""

import argparse
import time
import warnings
from statistics import fmean

import ofcl
from ofcl.assembly.dealing import Loader
from ofcl.settings.layers import make_settings

WAYS = {
    "standardised": {},
    "unit": {"features": "unit"},
    "lr 0.001": {"lr": 0.001},
    "lr 0.01": {"lr": 0.01},
    "hidden 1024": {"hidden": 1024},
    "hidden 2048": {"hidden": 2048},
    "distil 1": {"distil": 1.0},
    "distil 6": {"distil": 6.0},
    "replay 6": {"replay_ratio": 6.0},
    "noise": {"augment": "noise"},
    "contrast 0.5": {"contrast": 0.5},
    "previous 0.25": {"previous": 0.25},
    "nearest mean": {"classifier": "nearest-mean"},
}
"""The ways by name: settings that differ from those that are chosen for vectors."""


def main() -> None:
    """Prints a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--embedder", default="efficientnet-lite0")
    parser.add_argument("--memory", type=int, default=200)
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--only", default=",".join(WAYS), help="names of ways, with commas")
    parser.add_argument("--train-per-class", type=int)
    parser.add_argument("--validation", type=float, default=0.1)
    parser.add_argument("--test", action="store_true", help="print A and F too")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    load = Loader()
    for name in given.only.split(","):
        results, began = [], time.monotonic()
        for seed in map(int, given.seeds.split(",")):
            made = make_settings({
                "dataset": given.dataset, "embedder": given.embedder, "memory": given.memory,
                "seed": seed, "validation": given.validation,
                "train_per_class": given.train_per_class, **WAYS[name],
            })  # fmt: skip
            run = ofcl.Run(made, load=load)
            for _ in run:
                pass
            results.append(run.result())
        line = f"{name}: validation {fmean(r.validation_A or 0.0 for r in results):.2f}"
        if given.test:
            line += f", A {fmean(r.A for r in results):.2f}, F {fmean(r.F for r in results):.2f}"
        print(f"{line} ({(time.monotonic() - began) / len(results):.0f} s a seed)", flush=True)


if __name__ == "__main__":
    main()
