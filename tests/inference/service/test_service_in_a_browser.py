"""The pages of the service in Chromium, where there is one."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.conftest import make_images
from tests.inference.service.conftest import EVIL, TOKEN
from tests.support.commands import in_one_process

pytestmark = [pytest.mark.browser, in_one_process]


@pytest.fixture
def opened(browser):
    """Opens addresses; gives the page, and what it said and asked for."""
    contexts = []

    def open_(address, **how):
        context = browser.new_context(**how)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page, said, asked

    yield open_
    for context in contexts:
        context.close()


def picture(pixels):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def files(count):
    pixels = make_images().x_test.numpy()[:: 24 // count, 0]
    return [
        {"name": f"scan {n} <b>.png", "mimeType": "image/png", "buffer": picture(pixels[n])}
        for n in range(count)
    ]


DROP = """async ([name, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
    for (const kind of ["dragenter", "dragover", "drop"])
        document.getElementById("drop").dispatchEvent(
            new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def answers_in(page):
    page.wait_for_selector("#answers tbody tr")
    return page.locator("#answers tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim()))"
    )


@pytest.mark.parametrize("width", [390, 1280])
def test_a_dropped_file_shows_label_probability_and_uncertainty(opened, images_served, width):
    page, said, asked = opened(images_served.address, viewport={"width": width, "height": 800})
    page.locator("#about", has_text="8 × 8").wait_for()
    (file,) = files(1)
    page.evaluate(DROP, [file["name"], list(file["buffer"])])
    ((name, label, probability, uncertainty, others),) = answers_in(page)
    with images_served.client() as client:
        (wanted,) = client.post("/predict", files={"f": ("a.png", file["buffer"])}).json()
    assert name == file["name"]
    assert label == wanted["label"]
    assert probability == f"{100 * wanted['probability']:.1f} %"
    assert float(uncertainty.split()[0]) == pytest.approx(wanted["uncertainty"], rel=0.01)
    assert EVIL in label + others  # as text
    assert page.title() == "ofcl serve"
    assert page.locator("td img, b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert said == []
    own = (images_served.address, "blob:", "data:")
    assert all(url.startswith(own) for url in asked)


def test_several_files_are_chosen_and_each_has_its_picture(opened, images_served):
    page, said, _ = opened(images_served.address)
    page.set_input_files("#files", files(4))
    assert [row[0] for row in answers_in(page)] == [f"scan {n} <b>.png" for n in range(4)]
    loaded = page.locator("tbody img").evaluate_all(
        "all => Promise.all(all.map(i => i.decode().then(() => i.naturalWidth)))"
    )
    assert loaded == [8] * 4
    assert page.locator("#counted").inner_text() == "4 answers"
    assert said == []


def test_errors_are_shown_and_the_next_file_is_answered(opened, images_served):
    page, _, _ = opened(images_served.address)
    wrong = {"name": "<i>x</i>.png", "mimeType": "image/png", "buffer": b"no image"}
    page.set_input_files("#files", wrong)
    page.locator("#problem", has_text="cannot be read").wait_for()
    assert "'<i>x</i>.png'" in page.locator("#problem").inner_text()
    assert not page.locator("#answers").is_visible()
    page.set_input_files("#files", files(1))
    answers_in(page)
    assert page.locator("#problem").inner_text() == ""


def test_a_row_is_written_and_a_table_dropped(opened, table_served):
    page, said, _ = opened(table_served.address)
    page.locator("#sample").fill("2.05, -2")
    page.get_by_role("button", name="Predict").click()
    ((name, label, *_),) = answers_in(page)
    with table_served.client() as client:
        (wanted,) = client.post("/predict", json={"samples": [[2.05, -2]]}).json()
    assert (name, label) == ("sample 1", wanted["label"])
    table = {"name": "t.csv", "mimeType": "text/csv", "buffer": b"a,b\n0,0\n3,-3\n2,-2\n"}
    page.set_input_files("#files", table)
    page.locator("#counted", has_text="3 answers").wait_for()
    assert len(answers_in(page)) == 3
    assert said == []


def test_the_token_is_asked_for_and_kept_in_the_page_only(opened, token_served):
    page, _, asked = opened(token_served.address)
    page.wait_for_selector("#access:not([hidden])")
    page.locator("#token").fill(TOKEN)
    page.get_by_role("button", name="Use it").click()
    page.locator("#about", has_text="6 labels").wait_for()
    assert not page.locator("#access").is_visible()
    kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
    assert kept == [0, 0, ""]
    assert not any(TOKEN in url for url in asked)


def test_the_page_for_programs_needs_no_network(opened, images_served):
    page, said, asked = opened(images_served.address + "/docs")
    page.wait_for_selector("h2")
    assert page.locator("h2").all_inner_texts() == [
        "POST /predict", "GET /model", "GET /health", "GET /metrics"
    ]  # fmt: skip
    assert "multipart/form-data" in page.locator("main").inner_text()
    assert said == []
    assert all(url.startswith((images_served.address, "data:")) for url in asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_gets_everywhere(opened, images_served, scheme):
    page, _, _ = opened(images_served.address, color_scheme=scheme)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "files"
    assert page.locator("input:not([type=password])").count() == 1
    assert page.locator("table:not(:has(caption))").count() == 0
