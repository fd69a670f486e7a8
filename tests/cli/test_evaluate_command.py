"""`ofcl evaluate`: tables, JSON and a page with pictures."""

import json
import shutil

import pytest

from tests.report.test_page_in_a_browser import browser, opened  # noqa: F401 (fixtures)
from tests.support.commands import ofcl as command
from tests.support.trained_runs import image_folder, server_counts


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    image_folder(folder)
    code, out, err = command("evaluate", folder / "run", "--json", folder / "e.json", "--page",
                             folder / "e.html", "--plot", folder / "risk.svg", "-q")  # fmt: skip
    assert code == 0, err
    return folder, out


def test_table_json_and_server_agree(evaluated):
    folder, out = evaluated
    counts, result = server_counts(folder / "run")
    found = json.loads((folder / "e.json").read_text())
    assert found["mean_of_tasks"] == result["global_A"]
    assert {c["label"]: (c["right"], c["samples"]) for c in found["classes"]} == counts
    for label, (right, samples) in counts.items():
        line = next(line for line in out.splitlines() if line.startswith(label))
        assert line.split()[-3:] == [str(samples), str(right), f"{100 * right / samples:.2f}"]
    assert f"{result['global_A']:.2f}" in out
    assert found["risk"].keys() == {"probability", "uncertainty"}
    assert (folder / "risk.svg").read_text().startswith("<?xml")


def test_the_figures_can_be_printed_as_json(evaluated):
    folder, _ = evaluated
    code, out, _ = command("evaluate", folder / "run", folder / "pictures", "--json", "-", "-q",
                           "--no-uncertainty")  # fmt: skip
    assert code == 0
    assert json.loads(out)["samples"] == 41
    assert json.loads(out)["risk"].keys() == {"probability"}


def test_without_data_a_copied_bundle_asks_for_some(evaluated, tmp_path):
    folder, _ = evaluated
    shutil.copytree(folder / "run" / "model", tmp_path / "model")
    code, _, err = command("evaluate", tmp_path / "model")
    assert code == 2
    assert "ofcl evaluate MODEL DATA" in err
    assert command("evaluate", folder / "run" / "model", "-q")[0] == 0  # it is in its run


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_the_page_fits(opened, evaluated, width):  # noqa: F811
    folder, _ = evaluated
    address = (folder / "e.html").as_uri()
    page, said, asked = opened(address, viewport={"width": width, "height": 800})
    assert (said, asked) == ([], [address])
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("figure svg").count() == 3
    for section in ("summary", "unsure", "calibration", "confusions", "classes"):
        assert page.locator(f"section#{section} > h2").is_visible()
    _, result = server_counts(folder / "run")
    assert f"{result['global_A']:.2f}" in page.locator("#summary").inner_text()
