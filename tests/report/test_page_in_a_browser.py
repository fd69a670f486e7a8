"""The page in Chromium, where there is one."""

import itertools

import numpy as np
import pytest

import ofcl
from ofcl.report import series
from ofcl.report.confusions import read_confusions
from ofcl.report.page import as_html, make_report
from ofcl.report.recorded_runs import read_run
from ofcl.storage.run_directory import RunDirectory
from tests.conftest import TINY, make_blobs
from tests.support.browsers import chromium
from tests.support.report_pages import METHODS, SECTIONS, numbers_in, pixels_of, result_of

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def opened(browser):
    """Opens addresses; gives the page, and what it said and asked for."""
    contexts = []

    def open_(address, **how):
        context = browser.new_context(**how)
        contexts.append(context)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page, said, [url for url in asked if not url.startswith("data:")]

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page_of_the_demo(demo, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(as_html(make_report([demo], samples=10)), encoding="utf-8")
    return path.as_uri()


@pytest.mark.browser
def test_in_a_browser_everything_is_there(opened, page_of_the_demo, demo):
    page, said, asked = opened(page_of_the_demo)
    assert (said, asked) == ([], [page_of_the_demo])
    for section in ("summary", "comparison", *METHODS, "settings"):
        assert page.locator(f"section#{section} > h2").is_visible()
    for method in METHODS:
        run = page.locator(f"section#{method}")
        for section in SECTIONS:
            assert run.locator(f"section.{section} > h4").is_visible()
        result = result_of(demo / method)
        cells = run.locator("table.heat td[data-value]").evaluate_all(
            "cells => cells.map(cell => [Number(cell.dataset.value), cell.textContent])"
        )
        mean = series.mean_matrix(result["accuracy"])
        wanted = numbers_in([mean, result["global_accuracy"], *result["accuracy"]])
        assert [value for value, _ in cells] == pytest.approx(wanted)
        assert [text for _, text in cells] == [f"{value:.1f}" for value in wanted]
        boxes = [figure.bounding_box() for figure in run.locator("figure svg").all()]
        assert all(box["width"] > 100 for box in boxes)


@pytest.mark.browser
def test_in_a_browser_the_pictures_are_the_memorys(opened, page_of_the_demo, demo):
    page, _, _ = opened(page_of_the_demo)
    for method in METHODS[1:]:
        for client in range(3):
            pixels = pixels_of(demo / method, client)
            shown = page.locator(
                f'section#{method} .samples[data-client="{client}"] li'
            ).evaluate_all(
                """items => items.map(item => {
                    const image = item.querySelector("img");
                    const canvas = document.createElement("canvas");
                    canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
                    const draw = canvas.getContext("2d");
                    draw.drawImage(image, 0, 0);
                    const seen = draw.getImageData(0, 0, canvas.width, canvas.height).data;
                    const red = Array.from(seen).filter((_, i) => i % 4 == 0);
                    return [Number(item.dataset.number), red];
                })"""
            )
            assert len(shown) == 10
            for number, seen in shown:
                assert np.array_equal(np.array(seen).reshape(28, 28), pixels[number])


WORST_CONTRAST = """() => {
    const luminance = (c) => c.map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const canvas = document.createElement("canvas").getContext("2d");
    const rgb = (colour) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return Array.from(canvas.getImageData(0, 0, 1, 1).data);
    };
    const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const colour = rgb(getComputedStyle(e).backgroundColor);
            if (colour[3] > 0) return colour.slice(0, 3);
        }
        return [255, 255, 255];
    };
    let worst = [99, ""];
    const texts = "h1,h2,h3,h4,p,a,td,th,caption,figcaption,span,summary";
    for (const e of document.querySelectorAll(texts)) {
        if (!e.textContent.trim() || e.classList.contains("skip")) continue;
        const a = luminance(rgb(getComputedStyle(e).color).slice(0, 3)), b = luminance(behind(e));
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < worst[0]) worst = [contrast, e.outerHTML.slice(0, 90)];
    }
    return worst;
}"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_in_a_browser_it_fits_and_can_be_read(opened, page_of_the_demo, width, scheme):
    page, _, _ = opened(page_of_the_demo, viewport={"width": width, "height": 800},
                        color_scheme=scheme)  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") == width
    worst = page.evaluate(WORST_CONTRAST)
    assert worst[0] >= 4.5, worst
    text = page.locator("figure svg text").first.evaluate("e => getComputedStyle(e).fill")
    assert text == page.evaluate("getComputedStyle(document.body).color")


@pytest.mark.browser
def test_in_a_browser_the_keyboard_and_a_screen_reader_get_everywhere(opened, page_of_the_demo):
    page, _, _ = opened(page_of_the_demo)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    each = page.locator("section#bi details.clients")
    assert not each.locator("table").first.is_visible()
    each.locator("summary").focus()
    page.keyboard.press("Enter")
    assert each.locator("table").first.is_visible()
    assert page.locator("figure [role=img]:not([aria-label])").count() == 0
    assert page.locator("img:not([alt])").count() == 0
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator(".wide:not([tabindex])").count() == 0
    levels = page.locator("h1,h2,h3,h4").evaluate_all("all => all.map(h => Number(h.tagName[1]))")
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


@pytest.mark.browser
def test_in_a_browser_what_is_closed_is_printed(opened, page_of_the_demo):
    page, _, _ = opened(page_of_the_demo)
    closed = page.locator("section#bi details.clients table").first
    assert closed.evaluate("e => e.checkVisibility({ contentVisibilityAuto: true })") is False
    page.emulate_media(media="print")
    assert closed.bounding_box()["height"] > 50
    assert page.locator("nav").is_hidden()


@pytest.mark.browser
def test_in_a_browser_a_followed_run_brings_its_news(opened, followed):
    events, address = followed
    page, said, _ = opened(address)
    assert "not finished" in page.locator("#summary").inner_text()
    page.locator("#settings details summary").click()
    page.locator("#settings details summary").focus()
    for _ in events:
        pass
    page.wait_for_function("!document.querySelector('#summary').innerText.includes('not finished')")
    assert page.locator("#settings details[open]").count() == 1  # as it was left
    assert page.evaluate("document.activeElement.textContent") == "Settings that all have"
    assert said == []


@pytest.fixture(scope="module")
def page_of_many_classes(tmp_path_factory):
    """A page of a run with 150 classes, and the run's confusion matrix."""
    folder = tmp_path_factory.mktemp("many")
    data = make_blobs(classes=150, train=6, test=4, features=4)
    ofcl.run(data, out=folder / "run", **{**TINY, "method": "er", "memory": 150, "burn_in": 1,
                                          "tasks": 5, "steps": 1})  # fmt: skip
    path = folder / "report.html"
    path.write_text(as_html(make_report([folder / "run"], samples=0)), encoding="utf-8")
    return path.as_uri(), read_confusions(read_run(RunDirectory(folder / "run")))


def in_words(matrix, row, column):
    n, total = matrix.counts[row, column], matrix.counts[row].sum()
    what = "right" if row == column else f"taken for {matrix.labels[column]}"
    return f"{matrix.labels[row]}: {n} of {total} {what} ({100 * n / total:.1f} %)"


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1200])
def test_in_a_browser_a_cell_of_many_says_what_is_in_it(opened, page_of_many_classes, width):
    address, matrix = page_of_many_classes
    page, said, _ = opened(address, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    cells, words = page.locator(".cells"), page.locator(".confusions output")
    cells.scroll_into_view_if_needed()
    box = cells.locator("svg").bounding_box()
    left, top, wide, high = map(float, cells.get_attribute("data-box").split())
    for row, column in [(0, 0), (149, 149), matrix.wrong()[0], (3, 77)]:
        page.mouse.move(
            box["x"] + box["width"] * (left + wide * (column + 0.5) / 150),
            box["y"] + box["height"] * (top + high * (row + 0.5) / 150),
        )
        assert words.inner_text() == in_words(matrix, row, column)
    page.mouse.move(box["x"] + 1, box["y"] + 1)  # outside of the cells: the last one stays
    assert words.inner_text() == in_words(matrix, 3, 77)
    assert said == []


@pytest.mark.browser
def test_in_a_browser_the_arrow_keys_go_from_cell_to_cell(opened, page_of_many_classes):
    address, matrix = page_of_many_classes
    page, _, _ = opened(address)
    words = page.locator(".confusions output")
    assert "arrow keys" in words.inner_text()
    page.locator(".cells").focus()
    for key, wanted in (("Down", (0, 0)), ("Down", (1, 0)), ("Right", (1, 1)), ("Up", (0, 1)),
                        ("Up", (0, 1)), ("Left", (0, 0))):  # fmt: skip
        page.keyboard.press(f"Arrow{key}")
        assert words.inner_text() == in_words(matrix, *wanted)
    box = page.locator(".cells").bounding_box()
    assert page.locator(".cells .cursor").bounding_box()["width"] < box["width"] / 150
    table = page.locator(".confusions table", has_text="The most frequent confusions")
    assert table.locator("tbody tr").count() == 10
    true, predicted = matrix.wrong()[0]
    first = table.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert first[:2] == [matrix.labels[true], matrix.labels[predicted]]


@pytest.mark.browser
def test_in_a_browser_the_image_is_the_matrix(opened, page_of_many_classes):
    address, matrix = page_of_many_classes
    page, _, _ = opened(address)
    seen = page.locator(".cells svg image").first.evaluate(
        """async (image) => {
            const picture = new Image();
            picture.src = image.href.baseVal;
            await picture.decode();
            const canvas = document.createElement("canvas");
            canvas.width = picture.width; canvas.height = picture.height;
            const draw = canvas.getContext("2d");
            draw.drawImage(picture, 0, 0);
            const pixels = draw.getImageData(0, 0, canvas.width, canvas.height).data;
            return [canvas.width, canvas.height, Array.from(pixels).filter((_, i) => i % 4 == 3)];
        }"""
    )
    assert seen[:2] == [150, 150]
    opacity = np.array(seen[2]).reshape(150, 150)
    assert np.abs(opacity / 255 - matrix.shares() ** 0.5).max() < 0.01


@pytest.fixture(scope="module")
def page_of_mixed_runs(mixed, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(as_html(make_report([mixed], samples=4, drawn=3)), encoding="utf-8")
    return path.as_uri()


@pytest.mark.browser
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_in_a_browser_forty_runs_fit_and_begin_with_numbers(
    opened, page_of_mixed_runs, width, height
):
    page, said, _ = opened(page_of_mixed_runs, viewport={"width": width, "height": height})
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for table in page.locator(".results").all():
        for name in ("A ↑", "F ↓"):
            box = table.get_by_role("columnheader", name=name, exact=True).bounding_box()
            assert box["x"] + box["width"] <= width
    first = page.locator(".results tbody td:visible").first.bounding_box()
    assert first["y"] + first["height"] < height
    page.locator("details.run").evaluate_all("all => all.forEach((e) => { e.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.browser
def test_in_a_browser_experiments_are_searched_and_sorted(opened, page_of_mixed_runs):
    page, said, _ = opened(page_of_mixed_runs)
    rows = page.locator(".results tbody tr:visible")
    page.get_by_label("Search").fill("fashion memory 30")
    assert page.locator("#find output").inner_text() == "5 of 19 experiments"
    assert page.locator(".block:visible h3").all_inner_texts() == ["fashion-mini"]
    assert page.locator(".experiment:visible").count() == 5
    best = rows.locator("a").all_inner_texts()
    page.get_by_label("Sort").select_option("name")
    assert rows.locator("a").all_inner_texts() == sorted(best)
    page.get_by_label("Sort").select_option("F")
    F = rows.evaluate_all("rows => rows.map((row) => Number(row.dataset.f ?? 1e9))")
    assert F == sorted(F)
    page.get_by_label("Search").fill("not finished")
    assert rows.count() == 2
    page.get_by_label("Search").fill("")
    assert page.locator("#find output").inner_text() == "19 experiments"
    rows.first.locator("a").click()
    assert page.locator("details.run[open]").count() == 1
    assert said == []
