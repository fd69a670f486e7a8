"""A run as a job of NVFlare on stock processes, with certificates: a server, two sites.

Minutes, and packages from the registry: `make test-fresh`.
"""

import pytest
import torch
from safetensors.torch import load_file

from ofcl import Run, make_settings
from ofcl.events import Learned
from ofcl.storage.run_directory import RunDirectory
from tests.support.deployment import learned_of, rounds_of
from tests.support.environments import fresh_environment
from tests.support.stock_nvflare import SERVER, StockNVFlare

pytestmark = [pytest.mark.fresh, pytest.mark.xdist_group("stock-nvflare")]

NAMES = ("hospital-a", "hospital-b")
SETTINGS = {"protocol": "sound", "method": "bi", "memory": 40, "tasks": 2, "model": "mlp",
            "burn_in": 2, "q": 2, "batch_size": 8, "min_clients": 2, "seed": 1}  # fmt: skip


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvflare")
    environment = fresh_environment(folder / "environment", "nvflare", also=())
    nvflare = StockNVFlare(folder, environment, NAMES)
    try:
        nvflare.start(SERVER, *NAMES)
        yield nvflare
    finally:
        nvflare.stop()


@pytest.fixture(scope="module")
def local():
    run = Run(make_settings({**SETTINGS, "dataset": "digits", "clients": 2}))
    events = list(run)
    return run, {k: sum(e.batches for e in events if isinstance(e, Learned) and e.client == k)
                 for k in range(2)}  # fmt: skip


def submit(stock, out):
    stock.submit(stock.job(out, SETTINGS))


def rounds(stock, out, count):
    stock.wait_for(lambda: rounds_of(out) >= count, f"{count} rounds")


def over(stock, out, local):
    """Waits for the end, and compares with the run on one machine: all are waited for."""
    assert stock.finish("submit") == 0, stock.told()
    expected, learned = local
    assert learned_of(out) == learned  # no mini-batch was learned twice or left out
    model = load_file(out / "model.safetensors")
    for name, value in expected.server.model.items():
        assert torch.equal(model[name], value), name
    assert RunDirectory(out).result().A == expected.result().A
    for site in NAMES:
        assert (stock.kits / site / "ofcl" / "model" / "model.json").exists()


def test_the_model_is_that_of_the_local_engine(stock, local, tmp_path):
    submit(stock, tmp_path / "run")
    over(stock, tmp_path / "run", local)


def test_a_site_that_is_killed_and_started_again_goes_on(stock, local, tmp_path):
    submit(stock, tmp_path / "run")
    rounds(stock, tmp_path / "run", 2)
    stock.kill("hospital-b")
    stock.start("hospital-b")
    over(stock, tmp_path / "run", local)
    assert "hospital-b is there and not in the job" in (stock.folder / "submit.log").read_text()


def test_a_server_that_is_killed_and_started_again_goes_on(stock, local, tmp_path):
    submit(stock, tmp_path / "run")
    rounds(stock, tmp_path / "run", 2)
    stock.kill(SERVER)
    stock.start(SERVER)
    over(stock, tmp_path / "run", local)
