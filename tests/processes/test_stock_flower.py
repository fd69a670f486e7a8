"""A run as a Flower app on stock processes: a SuperLink, two SuperNodes, `flwr run`."""

import pytest
import torch
from safetensors.torch import load_file

from ofcl import Run, make_settings
from ofcl.events import Learned
from ofcl.storage.run_directory import RunDirectory
from tests.support.deployment import learned_of, rounds_of
from tests.support.stock_flower import StockFlower

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("stock-flower")]

NAMES = ("hospital-a", "hospital-b")
SETTINGS = {"protocol": "sound", "method": "bi", "memory": 40, "tasks": 2, "model": "mlp",
            "burn_in": 2, "q": 3, "limit": 6, "min_clients": 2, "seed": 1}  # fmt: skip


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    flower = StockFlower(tmp_path_factory.mktemp("stock"))
    try:
        flower.superlink()
        for name in NAMES:
            flower.supernode(name, dataset="digits", share=True)
        yield flower
    finally:
        flower.stop()


@pytest.fixture(scope="module")
def local():
    run = Run(make_settings({**SETTINGS, "dataset": "digits", "clients": 2}))
    events = list(run)
    return run, {k: sum(e.batches for e in events if isinstance(e, Learned) and e.client == k)
                 for k in range(2)}  # fmt: skip


def submit(stock, out):
    stock.run(out=str(out), **{f"settings.{name}": value for name, value in SETTINGS.items()})


def over(stock, out):
    stock.wait_for(lambda: (out / "result.json").exists(), "the result")


def test_the_model_is_that_of_the_local_engine(stock, local, tmp_path):
    submit(stock, tmp_path / "run")
    over(stock, tmp_path / "run")
    expected, _ = local
    model = load_file(tmp_path / "run" / "model.safetensors")
    for name, value in expected.server.model.items():
        assert torch.equal(model[name], value), name
    assert RunDirectory(tmp_path / "run").result().A == expected.result().A


def test_a_supernode_that_is_killed_and_started_again_goes_on(stock, local, tmp_path):
    out = tmp_path / "run"
    submit(stock, out)
    stock.wait_for(lambda: rounds_of(out) >= 1, "a round")
    stock.kill("hospital-b")
    stock.supernode("hospital-b", dataset="digits", share=True)
    over(stock, out)
    expected, learned = local
    assert learned_of(out) == learned  # no mini-batch was learned twice or left out
    result = RunDirectory(out).result()
    assert abs(result.A - expected.result().A) < 5
    assert (stock.folder / "hospital-b" / "model" / "model.json").exists()
