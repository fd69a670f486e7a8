"""The page of a federation of real processes in Chromium; a party dies and comes back meanwhile."""

import re
import signal

import httpx
import pytest

from ofcl.federation import status_file
from ofcl.inference.watch import party_facts, server_facts
from tests.support.browsers import chromium
from tests.support.deployment import LONG, PARTIES, Deployment, look_less_often, settings_file

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("deployment")]


def give_signs_often():
    look_less_often()
    status_file.SIGN_OF_LIFE = 0.5
    party_facts.SILENT = 2.5
    server_facts.SILENT = 15.0


def address_of(deployment, name, folder):
    deployment.spawn(name, "watch", folder, "--port", 0)
    deployment.wait_for(lambda: "(Ctrl-C" in deployment.log(name), name)
    return re.search(r"http://\S+:\d+", deployment.log(name))[0]


@pytest.fixture
def browser():
    with chromium() as opened:
        yield opened


@pytest.mark.long
def test_a_party_dies_and_comes_back_while_one_watches(tmp_path, browser):
    first, second = PARTIES[:2]
    deployment = Deployment(tmp_path, give_signs_often)
    try:
        deployment.server()
        for name in (first, second):
            deployment.client(name, "--local-too")
        deployment.connected(2)
        pages = {}
        for name, folder in (("server-page", deployment.folder),
                             ("party-page", deployment.folder / second)):  # fmt: skip
            pages[name] = browser.new_page(viewport={"width": 390, "height": 900})
            pages[name].set_default_timeout(40_000)
            pages[name].goto(address_of(deployment, name, folder))
        at_server, at_party = pages.values()
        at_server.locator("#state", has_text="no run yet").wait_for()
        row = at_server.locator("#parties tbody tr", has_text=second)
        row.locator("td.good", has_text="connected").wait_for()
        made = settings_file(tmp_path / "run.toml", {**LONG, "checkpoint_every": 1})
        out = tmp_path / "run"
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        at_server.locator("#state", has_text="a run goes on").wait_for()
        at_server.locator("#course:not([hidden])").wait_for()  # two rounds
        at_party.locator("#state.good", has_text="connected since").wait_for()
        deployment.kill(second, signal.SIGKILL)
        at_party.locator("#state.bad", has_text="no sign of life").wait_for()
        at_server.locator("#numbers div", has_text=f"{second} (").wait_for()  # waited for
        rounds = int(at_server.locator("#numbers dd").first.inner_text())
        deployment.client(second, "--local-too")
        at_party.locator("#state.good", has_text="connected since").wait_for()
        at_server.wait_for_function(
            "before => Number(document.querySelector('#numbers dd').textContent) > before",
            arg=rounds,
        )
        with httpx.Client(trust_env=False) as client:
            metrics = client.get(at_server.url + "metrics").text
            assert f'ofcl_party_connected{{party="{second}"}} 1' in metrics
            assert client.post(at_server.url + "facts").status_code == 405
        assert at_server.evaluate("document.documentElement.scrollWidth") == 390
        for name in ("server-page", "party-page"):
            deployment.processes[name].send(signal.SIGTERM)
            assert deployment.finish(name) == 0, deployment.told()
        at_server.locator("#problem", has_text="gets no answer").wait_for()
        deployment.kill("start", signal.SIGTERM)
        last = server_facts.ServerFacts(deployment.folder).collect()["run"]
        assert (last["state"], last["round"] > rounds) == ("stopped", True)
    finally:
        deployment.stop()
