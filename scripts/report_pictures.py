"""Makes the pictures of reports in the docs: forty mixed runs, and the demo's methods.

    python -m scripts.report_pictures FOLDER           # forty runs, on a desktop and on a phone
    python -m scripts.report_pictures FOLDER --demo    # the demo with three seeds; some minutes

They need Chromium and playwright. The runs are real and small (`scripts/real_runs.py`). They and
the page are left in FOLDER, the pictures are in `docs/`. `--copies N` makes no pictures, but copies
of six other runs, with other seeds, until there are N: to measure how long `ofcl compare` and
`ofcl report` take.
"""

from __future__ import annotations

import argparse
import shutil
from itertools import count, cycle, product
from pathlib import Path
from typing import NamedTuple

import ofcl
from ofcl.report.page import as_html, make_report
from scripts.real_runs import make_real_runs
from tests.support.mixed_runs import change_settings, make_runs

DOCS = Path(__file__).parents[1] / "docs"


class Picture(NamedTuple):
    """A picture of what is seen of a page."""

    name: str
    width: int
    height: int
    dark: bool = False
    of: str = "body"  # selects the element at the top of the picture


FORTY = [
    Picture("report-desktop.png", 1280, 900),
    Picture("report-phone.png", 390, 844, dark=True),
]
DEMO = [Picture("report-demo.png", 1280, 816, of="#cbr")]


def take_pictures(page: Path, pictures: list[Picture]) -> None:
    """Opens a page in Chromium, and saves what is seen of it.

    Args:
        page: The page.
        pictures: The pictures to take.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"),
                                         args=["--no-sandbox"])  # fmt: skip
        for picture in pictures:
            size = {"width": picture.width, "height": picture.height}
            opened = browser.new_page(viewport=size)
            opened.emulate_media(color_scheme="dark" if picture.dark else "light")
            opened.goto(page.resolve().as_uri())
            opened.eval_on_selector(picture.of, "element => element.scrollIntoView()")
            opened.screenshot(path=DOCS / picture.name)
        browser.close()


def make_demo_runs(runs: Path) -> None:
    """Makes the runs of `ofcl demo` with the seeds 0, 1 and 2.

    Args:
        runs: Their folder.
    """
    for method, seed in product(("none", "er", "cbr", "bi"), range(3)):
        out = runs / f"{method}-{seed}"
        ofcl.run("fashion-mini", model="mlp", memory=200, method=method, seed=seed, out=out)


def add_copies(runs: Path, wanted: int) -> None:
    """Copies finished runs, with seeds of their own, until there are as many as wanted.

    Args:
        runs: The folder of the runs.
        wanted: The number of runs.
    """
    finished = sorted(path.parent for path in runs.glob("*/result.json"))
    for run, seed in zip(cycle(finished), count(10), strict=False):
        if len(list(runs.iterdir())) >= wanted:
            return
        copy = shutil.copytree(run, runs / f"{run.name}-{seed}")
        change_settings(copy, seed=seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--copies", type=int)
    parser.add_argument("--demo", action="store_true")
    chosen = parser.parse_args()
    runs = chosen.folder / "runs"
    if chosen.copies:
        make_runs(runs, chosen.folder / "registry")
        add_copies(runs, chosen.copies)
    else:
        make, pictures = (make_demo_runs, DEMO) if chosen.demo else (make_real_runs, FORTY)
        make(runs)
        page = chosen.folder / "report.html"
        page.write_text(as_html(make_report([runs])), encoding="utf-8")
        take_pictures(page, pictures)
