"""Installs the wheel in fresh environments, each extra alone, and tries it: an import and a run.

    make wheel
    python scripts/check_extras.py dist/*.whl               # the core and every extra, the newest
    python scripts/check_extras.py dist/*.whl --lowest      # the lowest versions that are allowed
    python scripts/check_extras.py dist/*.whl core excel

`core` is the wheel alone; check_extras.toml has what is tried. The environments are copies of one
with PyTorch, which is made first. PyTorch stays at the version in constraints.txt: others bring
gigabytes of CUDA. `vision` does without torchvision, as the Makefile does.
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
PLAN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
BIN = "Scripts" if os.name == "nt" else "bin"


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


def needs_of(extra: str) -> list[str]:
    """Lists what the wheel needs and what the extra needs, with the extras that it names.

    An extra may need a newer version of what the wheel needs: then only the extra's is listed.
    """
    needs = list(PROJECT["dependencies"])
    for need in PROJECT["optional-dependencies"].get(extra, []):
        inner = re.fullmatch(r"ofcl\[(.+)\]", need)
        needs += needs_of(inner[1]) if inner else [need]
    return list({re.split("[><=]", need)[0]: need for need in needs}.values())


def install(environment: Path, wheel: Path, extra: str, lowest: bool) -> None:
    """Installs the wheel with an extra, in the newest or the lowest versions of what they need."""
    pip = ["-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check"]
    needs = [need for need in needs_of(extra) if not need.startswith("torch>")]
    if lowest:
        needs = [need.replace(">=", "==") for need in needs]
    alone = [need for need in needs if need.startswith("timm")]  # it would bring torchvision
    python(environment, *pip, str(wheel), *(need for need in needs if need not in alone))
    if alone:
        python(environment, *pip, "--no-deps", *alone)


def check(folder: Path, wheel: Path, extra: str, lowest: bool) -> tuple[float, float]:
    """Checks one extra; returns the seconds of installing it and of its tries."""
    environment, work = folder / extra, folder / f"{extra}-work"
    for path in (environment, work):
        shutil.rmtree(path, ignore_errors=True)
    work.mkdir()
    start = time.monotonic()
    shutil.copytree(folder / "base", environment, symlinks=True, copy_function=os.link)
    install(environment, wheel, extra, lowest)
    installed = time.monotonic()
    for line in (*PLAN["always"], *PLAN["tries"][extra]):
        command = line.replace("{small}", PLAN["small"]).split()[1:]
        of_ofcl = line.startswith("ofcl ")
        given = ("-m", "ofcl.cli.main", *command) if of_ofcl else ("-c", line)
        python(environment, *given, cwd=work)
    ended = time.monotonic()
    shutil.rmtree(environment)
    return installed - start, ended - installed


def main() -> None:
    """Checks the extras that were named, or all of them, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", default=list(PLAN["tries"]))
    parser.add_argument("--lowest", action="store_true", help="the lowest versions allowed")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-extras")
    given = parser.parse_intermixed_args()
    given.folder.mkdir(exist_ok=True)
    make_base(given.folder)
    failed = []
    for extra in given.extras:
        try:
            seconds = check(given.folder, given.wheel.resolve(), extra, given.lowest)
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
