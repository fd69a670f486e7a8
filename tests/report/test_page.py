"""The page says what the runs' files say."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.cli.main import app
from ofcl.evaluation import metrics
from ofcl.events import Evaluated
from ofcl.report import series
from ofcl.report.page import as_html, make_report, save_figures
from ofcl.storage.checkpoint import rewrite
from ofcl.storage.run_directory import RunDirectory
from tests.conftest import TINY
from tests.support.report_pages import METHODS, SECTIONS, numbers_in, result_of, values_of

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


def test_the_page_has_every_section_and_asks_for_nothing(page_of_all):
    html = page_of_all
    for section in ("summary", "comparison", *METHODS, "settings"):
        assert f'id="{section}"' in html
    for section in SECTIONS:
        assert html.count(f'class="{section}"') == 4
    assert not re.search(r'(src|href)="(?!data:|#)', html)
    assert "http://" not in re.sub(r'xmlns(:xlink)?="[^"]+"', "", html)
    for name in ("accuracy-over-time", "forgetting", "along-the-stream", "communication"):
        assert html.count(f'data-name="{name}"') == 4
    assert html.count('data-name="memory-by-class"') == 3  # none has no memory
    assert html.count('data-name="uncertainty"') == 1


def test_the_heat_maps_say_what_result_json_says(demo):
    html = as_html(make_report([demo / "bi"]))
    result = result_of(demo / "bi")
    mean = series.mean_matrix(result["accuracy"])
    wanted = numbers_in([mean, result["global_accuracy"], *result["accuracy"]])
    assert values_of(html) == pytest.approx(wanted)


def rows(html):
    """The cells of each row of all tables, as text."""
    return [
        [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    ]


def cells(html, first):
    """The cells of the table row whose first cell has this text."""
    return next(texts for texts in rows(html) if texts and texts[0] == first)


def test_the_tables_say_what_result_json_says(demo, page_of_all):
    html = page_of_all
    for method in METHODS:
        result = result_of(demo / method)
        A, F = f"{result['A']:.2f}", f"{result['F']:.2f}"
        each = [metrics.last_accuracy(matrix) for matrix in result["accuracy"]]
        summary = cells(html, method)
        assert (summary[2], summary[4]) == (A, F)
        assert summary[3] == f"{A} ± {np.std(each):.2f}"
        assert summary[6] == f"{result['global_A']:.2f}"
        sent, received = (f"{result[k] / 1e6:,.1f} MB" for k in ("bytes_sent", "bytes_received"))
        assert cells(html, f"{method}, seed 0")[1:] == [
            "finished", A, F, str(result["rounds"]), sent, received, f"{result['seconds']:.1f} s",
        ]  # fmt: skip
        assert ["method", method, method] in rows(html)
    assert cells(html, "clients") == ["clients", "3"]


def test_a_run_that_is_not_finished_is_not_in_the_summary(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "cbr", method="cbr", **TINY)
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    for event in Run(made, blobs, tmp_path / "er"):
        if isinstance(event, Evaluated) and event.task == 2:
            break  # one client of two has ended its last task
    report = make_report([tmp_path])
    assert [line.settings["method"] for line in report.lines] == ["cbr"]
    assert "not finished" in cells(as_html(report), "er, seed 0")[1]


def test_runs_of_the_same_seed_are_told_apart(tmp_path, blobs):
    for name in ("one", "two"):
        ofcl.run(blobs, out=tmp_path / name, method="er", **TINY)
    html = as_html(make_report([tmp_path]))
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {"er-seed-0-one", "er-seed-0-two"} <= set(ids)


def test_a_damaged_run_shows_what_can_be_read(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    for path in (tmp_path / "run" / "checkpoint").rglob("state.json"):
        path.write_text("{")
    html = as_html(make_report([tmp_path]))
    assert "every checkpoint in" in html
    assert 'data-name="along-the-stream"' in html


def test_a_run_of_an_older_version(tmp_path, blobs):
    """Without what later versions record; it is shown, and can be resumed."""
    made = make_settings({**TINY, "method": "bi", "checkpoint_every": 1})
    whole = ofcl.run(blobs, **{**TINY, "method": "bi"})
    for n, _ in enumerate(Run(made, blobs, tmp_path / "run")):
        if n == 40:
            break
    run = RunDirectory(tmp_path / "run")

    def older(state):
        for client in state["engine"]["clients"]:
            for key in ("told", "start", "released", "noise"):
                del client[key]
            del client["learner"]["memory"]["dropped"]

    rewrite(run.checkpoints, older)
    settings = (run.path / "settings.toml").read_text()
    (run.path / "settings.toml").write_text(
        re.sub(r"\[form\].*?\n\n", "", settings, flags=re.DOTALL)
    )
    assert "not finished" in as_html(make_report([tmp_path]))
    assert ofcl.resume(run.path, dataset=blobs).A == whole.A


def test_a_run_that_goes_on_shows_what_there_is(tmp_path, blobs):
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    run = Run(made, blobs, tmp_path / "run")
    assert "just begun" in as_html(make_report([tmp_path]))
    for n, _ in enumerate(run):
        if n == 40:
            break
    html = as_html(make_report([tmp_path]))
    assert "not finished: task 2 of 3" in html
    assert 'data-name="along-the-stream"' in html
    assert values_of(html)


def test_a_stream_names_its_classes(tmp_path):
    def readings(seed):
        draw = np.random.default_rng(seed)
        for n in range(120):
            label = ("calm", "storm <b>")[n // 60]
            yield draw.normal(3 * (n // 60), 1, size=4), label

    ofcl.run(streams=[readings(0), readings(1)], out=tmp_path / "run", method="bi", memory=10,
             burn_in=1)  # fmt: skip
    html = as_html(make_report([tmp_path]))
    assert "storm &lt;b&gt;" in html
    assert "storm <b>" not in html


def test_seeds_are_one_experiment(tmp_path, blobs):
    for seed in (0, 1):
        ofcl.run(blobs, out=tmp_path / f"er{seed}", method="er", seed=seed, **TINY)
    report = make_report([tmp_path])
    assert [len(experiment.runs) for experiment in report.experiments] == [2]
    assert report.lines[0].A.std is not None
    assert str(report.lines[0].A_over_clients) in as_html(report)


def test_figures_and_tables_for_a_paper(tmp_path, demo):
    paths = save_figures(make_report([demo / "er", demo / "bi"]), tmp_path)
    names = {path.name for path in paths}
    assert {"comparison.md", "comparison.tex", "comparison.csv", "accuracy-per-task.pdf",
            "forgetting-against-er.svg", "bi-seed-0-uncertainty.pdf"} <= names  # fmt: skip
    for path in paths:
        start = path.read_bytes()[:5]
        assert start == {".pdf": b"%PDF-", ".svg": b"<?xml"}.get(path.suffix, start)
    line = (tmp_path / "comparison.csv").read_text().splitlines()
    assert line[0].startswith("dataset,method,memory,protocol,seeds,A_over_seeds,A_over_seeds_std")
    A = max(result_of(demo / name)["A"] for name in ("er", "bi"))
    assert float(line[1].split(",")[5]) == pytest.approx(A)
    assert r"\toprule" in (tmp_path / "comparison.tex").read_text()


def test_the_command(tmp_path, demo):
    ran = CliRunner().invoke(app, ["report", str(demo / "er"), "-o", str(tmp_path / "a" / "r.html"),
                                   "--figures", str(tmp_path / "f"), "--samples", "3"])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "a" / "r.html").read_text().count("<img") == 9
    assert (tmp_path / "f" / "comparison.tex").exists()
    with pytest.raises(OfclError, match="no such directory"):
        make_report([tmp_path / "nothing"])
