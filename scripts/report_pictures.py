"""Makes the pictures of a report in the docs: forty mixed runs, on a desktop and on a phone.

    python -m scripts.report_pictures FOLDER      # needs Chromium and playwright

The runs are real and small (`scripts/real_runs.py`). They and the page are left in FOLDER, the
pictures are `docs/report-desktop.png` and `docs/report-phone.png`. `--copies N` makes no pictures,
but copies of six other runs, with other seeds, until there are N: to measure how long
`ofcl compare` and `ofcl report` take.
"""

from __future__ import annotations

import argparse
import shutil
from itertools import count, cycle
from pathlib import Path

from ofcl.report.page import as_html, make_report
from scripts.real_runs import make_real_runs
from tests.support.mixed_runs import change_settings, make_runs

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = {"report-desktop.png": (1280, 900, "light"), "report-phone.png": (390, 844, "dark")}
"""Width, height and colours of each picture."""


def take_pictures(page: Path) -> None:
    """Opens a page in Chromium, and saves what is seen of it first.

    Args:
        page: The page.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"),
                                         args=["--no-sandbox"])  # fmt: skip
        for name, (width, height, colours) in PICTURES.items():
            opened = browser.new_page(viewport={"width": width, "height": height})
            opened.emulate_media(color_scheme="dark" if colours == "dark" else "light")
            opened.goto(page.resolve().as_uri())
            opened.screenshot(path=DOCS / name)
        browser.close()


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
    chosen = parser.parse_args()
    if chosen.copies:
        make_runs(chosen.folder / "runs", chosen.folder / "registry")
        add_copies(chosen.folder / "runs", chosen.copies)
    else:
        make_real_runs(chosen.folder / "runs")
        page = chosen.folder / "report.html"
        page.write_text(as_html(make_report([chosen.folder / "runs"])), encoding="utf-8")
        take_pictures(page)
