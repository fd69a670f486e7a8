"""Installs the wheel in fresh environments, each extra alone, and tries it: an import and a run.

    make wheel
    python scripts/check_extras.py dist/*.whl            # the core and every extra
    python scripts/check_extras.py dist/*.whl excel lowest

`core` is the wheel alone with the newest dependencies, `lowest` the wheel alone with the lowest
versions that it allows. The environments are copies of one with PyTorch, which is made first.
PyTorch stays at the version in constraints.txt: others bring gigabytes of CUDA. `vision` does
without torchvision, as the Makefile does.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BIN = "Scripts" if os.name == "nt" else "bin"
RUN = ["run", "--dataset", "digits", "--model", "mlp", "--clients", "2", "--limit", "2", "--tasks",
       "2", "--out", "run", "-q"]  # fmt: skip
TABLE = "import csv; w = csv.writer(open('rows.csv', 'w', newline='')); " \
        "w.writerow(['x', 'z', 'y']); " \
        "w.writerows([n % 7, n % 2, 'ab'[n % 2]] for n in range(60))"  # fmt: skip
TEXTS = TABLE.replace(
    "n % 7, n % 2, 'ab'[n % 2]", "n, ('good ', 'bad ')[n % 2] * (n % 5 + 1), 'ab'[n % 2]"
)
SERVE = """import socket, subprocess, sys, time, urllib.request
with socket.create_server(("127.0.0.1", 0)) as free: port = str(free.getsockname()[1])
p = subprocess.Popen([sys.executable, '-m', 'ofcl.cli.main', 'serve', 'run', '--port', port])
for _ in range(300):
    try:
        print(urllib.request.urlopen(f'http://127.0.0.1:{port}/health').status); break
    except OSError:
        time.sleep(0.2)
else: raise SystemExit('the service does not answer')
p.terminate(); p.wait()
"""
COMMANDS = {"run", "list", "export", "reproduce", "report", "federation", "predict"}
TRIES = {
    "text": [TEXTS, "run --dataset rows.csv --label y --text z --embedder minilm --out texts -q"],
    "vision": ["import timm; timm.create_model('resnet18')", "list models"],
    "hub": ["import datasets, huggingface_hub, pyarrow; import pyarrow.parquet as p; p.write_table("
            "pyarrow.table({'x': list(range(60)), 'y': list('ab' * 30)}), 'rows.parquet')",
            "run --dataset rows.parquet --label y --out rows -q"],
    "excel": ["import openpyxl as o; b = o.Workbook(); b.active.append(['x', 'y']); "
              "[b.active.append([n % 7, 'ab'[n % 2]]) for n in range(60)]; b.save('rows.xlsx')",
              "run --dataset rows.xlsx --label y --out rows -q"],
    "onnx": ["import onnx, onnxruntime", "export run --onnx model.onnx"],
    "serve": [SERVE],
    "figures": ["import matplotlib", "reproduce figure2 --help"],
    "report": ["import jinja2, matplotlib", "report run -o report.html"],
    "tensorboard": ["import tensorboard", "run --dataset digits --model mlp --limit 1 --tasks 2 "
                    "--track tensorboard --out tracked -q"],
    "mlflow": ["import mlflow", "run --dataset digits --model mlp --limit 1 --tasks 2 "
               "--track mlflow --out tracked -q"],
    "wandb": ["import wandb"],
    "flower": ["import flwr, ray", "federation init trial --clients a,b"],
    "core": [TABLE, "run --dataset rows.csv --label y --out rows -q", "predict rows rows.csv"],
}  # fmt: skip
TRIES["lowest"] = TRIES["core"]


def python(environment: Path, *arguments: str, cwd: Path | None = None) -> None:
    """Runs the Python of an environment; raises an error with its last lines if it fails."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [environment / BIN / "python", *arguments], cwd=cwd, capture_output=True, text=True,
        env={**plain, "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(
            f"{environment.name}: {arguments}\n{done.stdout[-500:]}{done.stderr[-2000:]}"
        )


def make_base(folder: Path) -> Path:
    """Makes the environment with PyTorch that the others are copies of."""
    base = folder / "base"
    if not base.exists():
        subprocess.run([sys.executable, "-m", "venv", base], check=True)
        pinned = re.search(r"^torch==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
        python(base, "-m", "pip", "install", "-q", "--no-compile", pinned[0])
    return base


def install(environment: Path, wheel: Path, extra: str) -> None:
    """Installs the wheel, with an extra or with the lowest versions of what it needs."""
    pip = ["-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check"]
    if extra == "lowest":
        needs = [need for need in PROJECT["dependencies"] if not need.startswith("torch")]
        python(environment, *pip, str(wheel), *(need.replace(">=", "==") for need in needs))
    elif extra == "vision":
        python(environment, *pip, str(wheel), "huggingface_hub", "pyyaml")
        python(environment, *pip, "--no-deps", *PROJECT["optional-dependencies"]["vision"])
    else:
        python(environment, *pip, str(wheel) if extra == "core" else f"{wheel}[{extra}]")


def check(folder: Path, wheel: Path, extra: str) -> tuple[float, float]:
    """Checks one extra; returns the seconds of installing it and of its tries."""
    environment, work = folder / extra, folder / f"{extra}-work"
    for path in (environment, work):
        shutil.rmtree(path, ignore_errors=True)
    work.mkdir()
    start = time.monotonic()
    shutil.copytree(folder / "base", environment, symlinks=True, copy_function=os.link)
    install(environment, wheel, extra)
    installed = time.monotonic()
    python(environment, "-c", "import ofcl", cwd=work)
    python(environment, "-m", "ofcl.cli.main", *RUN, cwd=work)
    for line in TRIES[extra]:
        command = line.split(" ")[0] in COMMANDS
        given = ("-m", "ofcl.cli.main", *line.split()) if command else ("-c", line)
        python(environment, *given, cwd=work)
    ended = time.monotonic()
    shutil.rmtree(environment)
    return installed - start, ended - installed


def main() -> None:
    """Checks the extras that were named, or all of them, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", default=["core", "lowest", *PROJECT[
        "optional-dependencies"]])  # fmt: skip
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-extras")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    make_base(given.folder)
    failed = []
    for extra in (name for name in given.extras if name != "dev"):
        try:
            seconds = check(given.folder, given.wheel.resolve(), extra)
            print(
                f"{extra:12} installed in {seconds[0]:4.0f} s, tried in {seconds[1]:4.0f} s",
                flush=True,
            )
        except SystemExit as error:
            print(f"{extra:12} FAILED {error}", flush=True)
            failed.append(extra)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
