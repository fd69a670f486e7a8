"""Runs that several tests of the report look at."""

import threading
from dataclasses import replace

import pytest

from ofcl import Run, make_settings
from ofcl.data.loading import load_dataset
from ofcl.report.follow import Follower, serve
from ofcl.report.page import as_html, make_report
from ofcl.settings import files as settings_files
from tests.conftest import TINY
from tests.support.mixed_runs import make_runs
from tests.support.report_pages import METHODS


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """Runs of the demo's four methods under `sound`, shorter and with smaller memories.

    With the `mlp`, which has learned enough by then to forget: ER forgets some ten points with
    every seed, so that other methods can be compared with it whatever the processor rounds.
    """
    folder = tmp_path_factory.mktemp("demo")
    shorter = {"protocol": "sound", "model": "mlp", "hidden": 32, "steps": 2, "limit": 6,
               "burn_in": 2, "q": 2, "memory": 30, "clients": 3}  # fmt: skip
    whole = load_dataset(settings_files.preset("demo")["dataset"])
    data = replace(whole, x_test=whole.x_test[::7], y_test=whole.y_test[::7])
    for method in METHODS:
        made = make_settings(settings_files.preset("demo"), {**shorter, "method": method})
        for _ in Run(made, data, folder / method):
            pass
    return folder


@pytest.fixture(scope="session")
def page_of_all(demo):
    """The report of the demo's runs."""
    return as_html(make_report([demo]))


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    """Forty runs of many kinds, some of them not finished."""
    folder = tmp_path_factory.mktemp("mixed")
    make_runs(folder / "runs", folder / "registry")
    return folder / "runs"


@pytest.fixture
def followed(tmp_path, blobs):
    """A run that goes on when it is asked to, and the address of its report."""
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    events = iter(Run(made, blobs, tmp_path / "run"))
    next(events)
    follower = Follower([tmp_path], lambda: as_html(make_report([tmp_path]), live=True))
    server = serve(follower)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield events, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
