"""The pages to watch show cross-site validation in Chromium: all of it, or one's own part."""

from pathlib import Path

import pytest

from ofcl.inference import watch
from ofcl.inference.watch.party_facts import PartyFacts
from ofcl.inference.watch.server_facts import ServerFacts
from ofcl.inference.watch.watch_app import WEB
from tests.support.browsers import chromium
from tests.support.federation import PARTIES, SMALL
from tests.support.watched import finished

pytestmark = pytest.mark.browser
FILES = Path(watch.__file__).parent / "web"
SHORT = {**SMALL, "limit": 4, "tasks": 1, "closing_round": "end", "cross_site": True}


@pytest.fixture
def browser():
    with chromium() as opened:
        yield opened


def opened(browser, facts):
    """The page of some facts."""
    page = browser.new_page()

    def answer(route):
        path = route.request.url.removeprefix("http://watch.test")
        if path == "/facts":
            route.fulfill(json=facts)
        else:
            file, kind = WEB[path]
            route.fulfill(path=FILES / file, content_type=kind)

    page.route("http://watch.test/**", answer)
    page.goto("http://watch.test/")
    page.locator("#shown:not([hidden])").wait_for()
    return page


def shown(browser, facts):
    """The table of cross-site validation on the page of some facts; None: it is hidden."""
    page = opened(browser, facts)
    if page.locator("#cross").is_hidden():
        return None
    return [row.split("\t") for row in page.locator("#cross table").inner_text().splitlines()]


def percents(row):
    return [f"{value:.1f} %" for value in row["accuracy"]]


def test_the_server_shows_the_matrix_and_a_party_its_own_row_and_column(tmp_path, browser):
    run = finished(tmp_path / "trial", SHORT, cross_site=True)
    found = run.result().cross_site
    server = ServerFacts(tmp_path / "trial").collect()
    assert shown(browser, server) == [
        ["model", *(f"on the data of {name}" for name in PARTIES)],
        ["global", *percents(found[0])],
        *([f"of {name}", *percents(row)] for name, row in zip(PARTIES, found[1:], strict=True)),
    ]
    party = PartyFacts(tmp_path / "trial" / "hospital-b").collect()
    column = [percents(row)[1] for row in found]
    own = percents(found[2])
    assert shown(browser, party) == [
        ["party", "its model on your data", "your model on its data"],
        ["global model", column[0], "–"],
        ["hospital-a", column[1], own[0]],
        ["hospital-c", column[3], own[2]],
    ]
    assert shown(browser, {**server, "cross_site": None}) is None
    assert shown(browser, {**party, "helps": None}) is None
    # Of a stream without tasks there is the comparison on new samples alone.
    new = {"lot": 3, "samples": 500, "own": 81.2, "alone": 70.44}
    page = opened(browser, {**party, "helps": {"run": "x", "tasks": [], "new": new}})
    assert page.locator("#helps").inner_text().split("\n")[-1] == (
        "On your last 500 new samples, each before it was learned: your own model 81.2 %, one of "
        "your data alone 70.4 %."
    )
