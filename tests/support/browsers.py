"""Chromium for tests of pages, where there is one."""

import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def chromium():
    """Opens Chromium; the test is skipped if it is not installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                 None)  # fmt: skip
    if found is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()
