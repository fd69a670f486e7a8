"""What `ofcl predict` costs beside a bare PyTorch loop over the same 10,000 small images.

    python scripts/predict_speed.py RUN [--images 10000] [--times 3]

RUN is a run over grey images of 28 × 28 pixels, such as one of `fashion-mini`. The images are those
of `fashion-mini`, again and again, once as PNG files and once in an npz file. Both ways take turns
in one process, so that their ratio can be compared on any machine. Importing is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import ofcl
from ofcl.bundle.trained_model import TrainedModel
from ofcl.data.options import Damage
from ofcl.inference.answer_files import open_answers
from ofcl.inference.answering import Asked, answer_rows, prepare_lots
from ofcl.inference.input_rows import read_lots

BATCH = 256


@torch.no_grad()
def bare_loop(model: TrainedModel, path: Path) -> list[int]:
    """Predicts as somebody would who has the network and nothing else."""
    form, found = model.description.samples, []
    files = sorted(path.rglob("*.png")) if path.is_dir() else None
    array = None if files else np.load(path)["x"]
    for start in range(0, len(files or array), BATCH):
        if files:
            some = np.stack([np.asarray(Image.open(f)) for f in files[start : start + BATCH]])
        else:
            some = array[start : start + BATCH]
        x = (torch.from_numpy(some)[:, None].float() / 255 - form.mean[0]) / form.std[0]
        found += model.module(x).argmax(1).tolist()
    return found


def predict(model: TrainedModel, path: Path, out: Path) -> None:
    """Predicts as `ofcl predict MODEL INPUT -o out.csv --no-uncertainty` does."""
    asked, damage = Asked(measure=False), Damage()
    lots = read_lots(path, model.description.samples, BATCH, damage)
    with open_answers(out, asked.columns()) as writer:
        for ready in prepare_lots(model, lots, damage):
            writer.write(answer_rows(model, ready, asked)[1])


def main() -> None:
    """Measures both ways in turns, and prints the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    model = ofcl.load(given.run)
    data = ofcl.load_dataset("fashion-mini")
    pixels = np.resize(data.x_train[:, 0].numpy(), (given.images, 28, 28))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        np.savez(folder / "images.npz", x=pixels)
        for n, image in enumerate(pixels):
            Image.fromarray(image).save(folder / "images" / f"{n:05}.png")
        for path in (folder / "images", folder / "images.npz"):
            seconds: dict[str, list[float]] = {"bare": [], "ofcl": []}
            for _ in range(given.times):
                started = time.perf_counter()
                bare_loop(model, path)
                seconds["bare"].append(time.perf_counter() - started)
                started = time.perf_counter()
                predict(model, path, folder / "out.csv")
                seconds["ofcl"].append(time.perf_counter() - started)
            bare, ours = (float(np.median(some)) for some in seconds.values())
            kind = "PNG files" if path.is_dir() else "npz"
            print(f"{kind}: bare loop {bare:.2f} s, ofcl {ours:.2f} s, ratio {ours / bare:.2f}")


if __name__ == "__main__":
    main()
