"""Tests of what streams agree on: one scale, one code of the columns, whatever happens."""

import json

import numpy as np
import pytest

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.live import watched_folder
from ofcl.events import Learned, Skipped
from tests.test_experiment import assert_same, whole

VALUES = {"protocol": "sound", "method": "er", "memory": 12, "hidden": 8, "batch_size": 5, "q": 2,
          "burn_in": 1, "steps": 1, "idle": 0.05, "label": "y"}  # fmt: skip


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)


def write(folder, *, seed, scale=1.0, wards="AB", rows=30):
    """Writes a file with numbers, a category with gaps, a date, a truth value and an identifier."""
    draw = np.random.default_rng(seed)
    lines = ["patient_id,age,ward,seen,smoker,y"]
    for n in range(rows):
        age = "" if n % 7 == 3 else f"{scale * draw.normal(50, 10):.3f}"
        ward = "" if n % 5 == 4 else wards[n % len(wards)]
        lines.append(f"P{n},{age},{ward},2024-0{1 + n % 9}-1{n % 7},{['yes', 'no'][n % 2]},"
                     f"{'uvw'[n % 3]}")  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.csv").write_text("\n".join(lines) + "\n")


def made(tmp_path, clients=2, **values):
    streams = tuple(f"watch:{tmp_path / f'ward-{k}'}" for k in range(clients))
    return make_settings({**VALUES, "streams": streams, "window": 20, **values})


def forms(run):
    return [client.stream.form.agreement for client in run.clients]


def test_all_clients_have_the_scale_of_all_first_rows(tmp_path):
    draw = np.random.default_rng(0)
    tables = [draw.normal([5, 100 * k], [1, 3], size=(25, 2)).round(3) for k in range(3)]
    for k, table in enumerate(tables):
        (tmp_path / f"ward-{k}").mkdir()
        rows = "".join(f"{a},{b},{'uv'[n % 2]}\n" for n, (a, b) in enumerate(table))
        (tmp_path / f"ward-{k}" / "1.csv").write_text("a,b,y\n" + rows)
    run = Run(made(tmp_path, 3))
    first = np.concatenate([table[:20] for table in tables])
    for agreed in forms(run):
        np.testing.assert_allclose(agreed.standardise.mean, first.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(agreed.standardise.scale, first.std(axis=0), rtol=1e-12)
        assert (agreed.codes, agreed.count) == ((), 60)
    learned = np.concatenate([next(client.stream).x.numpy() for client in run.clients])
    scaled = (np.concatenate([t[:5] for t in tables]) - first.mean(axis=0)) / first.std(axis=0)
    np.testing.assert_allclose(learned, scaled, rtol=1e-5, atol=1e-6)


def test_categories_dates_and_gaps_are_agreed_on_over_clients(tmp_path, capsys):
    write(tmp_path / "ward-0", seed=0, wards="AB")
    write(tmp_path / "ward-1", seed=1, scale=3.0, wards="BC")
    run = Run(made(tmp_path), out=tmp_path / "run")
    one, other = forms(run)
    assert one is other
    codes = {code.name: code for code in one.codes}
    assert list(codes) == ["age", "ward", "seen", "smoker"]
    assert codes["ward"] == ColumnCode("ward", "category", gaps=True, categories=("A", "B", "C"))
    assert (codes["age"].kind, codes["age"].gaps) == ("number", True)
    assert [codes[name].kind for name in ("seen", "smoker")] == ["date", "boolean"]
    assert "patient_id (it looks like an identifier)" in capsys.readouterr().out
    list(run)
    # The model reads new rows by the same codes; an unknown category goes to the rare ones.
    model = ofcl.load(tmp_path / "run")
    row = {"age": None, "ward": "Z", "seen": "2024-05-05", "smoker": "no"}
    (x,) = model.prepare([row])
    names = [n for code in one.codes for n in [code.name] * code.width]
    at = names.index("ward")
    assert x[at : at + 5].tolist() == [0, 0, 0, 1, 0]
    assert x[names.index("age") + 1] == 1


def test_categories_that_come_later_share_a_place_and_damage_is_named(tmp_path):
    write(tmp_path / "ward-0", seed=0)
    write(tmp_path / "ward-1", seed=1)
    later = "patient_id,age,ward,seen,smoker,y\nP,40,Q,2024-02-02,yes,u\nP,old,A,2024-02-02,no,u\n"
    (tmp_path / "ward-0" / "2.csv").write_text(later)
    events = list(Run(made(tmp_path, on_bad="skip")))
    assert [e.problem for e in events if isinstance(e, Skipped)] == [
        "'2.csv', line 3: column 'age' is not a number but 'old'"
    ]
    assert sum(e.samples for e in events if isinstance(e, Learned)) == 61


@pytest.mark.parametrize("stop", [0, 3, 8])
def test_a_run_that_stops_ends_like_one_that_did_not(tmp_path, stop):
    write(tmp_path / "ward-0", seed=0, wards="AB")
    write(tmp_path / "ward-1", seed=1, scale=3.0, wards="BC")
    values = made(tmp_path)
    list(Run(values, out=tmp_path / "whole"))
    run = Run(values, out=tmp_path / "run")
    events = iter(run)
    for _ in range(stop + 1):
        next(events)
    run.save()
    events.close()
    list(Run.resume(tmp_path / "run"))
    assert_same([*whole(tmp_path / "run")], [*whole(tmp_path / "whole")])


def test_a_run_that_is_killed_before_the_agreement_begins_anew(tmp_path, monkeypatch):
    """Nothing has been learned or written before, so that nothing is lost."""
    write(tmp_path / "ward-0", seed=0)
    write(tmp_path / "ward-1", seed=1, rows=10)
    values = made(tmp_path, idle=None, limit=None)

    class Killed(Exception):
        pass

    def killed(run, seconds):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_pause", killed)
        with pytest.raises(Killed):
            Run(values, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    ended = made(tmp_path)
    for name in ("run", "again"):
        list(Run(ended, out=tmp_path / name))
    assert_same([*whole(tmp_path / "run")], [*whole(tmp_path / "again")])


def test_a_client_that_comes_late_takes_what_the_others_have_agreed_on(tmp_path):
    write(tmp_path / "ward-0", seed=0)
    (tmp_path / "ward-1").mkdir()
    run = Run(made(tmp_path, patience=0.0, idle=0.3))
    one, other = forms(run)
    assert one is other
    assert one.count == 20
    write(tmp_path / "ward-1", seed=1, wards="C")
    learned = {e.client for e in run if isinstance(e, Learned)}
    assert learned == {0, 1}


def test_a_resumed_run_does_not_say_again_when_learning_begins(tmp_path):
    write(tmp_path / "ward-0", seed=0)
    write(tmp_path / "ward-1", seed=1, rows=10)  # fewer than the window: they are waited for
    told = []

    def said(run):
        lines, told[:] = [*told, *run.warnings], []
        return sum("learning begins when 20 rows of each client" in line for line in lines)

    values = made(tmp_path, patience=0.1, idle=0.5)
    run = Run(values, out=tmp_path / "run", tell=told.append)
    assert said(run) == 1
    events = iter(run)
    next(event for event in events if isinstance(event, Learned))
    run.save()
    events.close()
    resumed = Run.resume(tmp_path / "run", tell=told.append)
    assert said(resumed) == 0
    list(resumed)
    assert said(resumed) == 0


def test_lines_of_json_may_have_gaps_and_words(tmp_path, monkeypatch):
    rows = [{"a": n if n % 4 else None, "b": "xy"[n % 2], "y": "uv"[n % 2]} for n in range(30)]
    rows[9]["b"] = ""
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        run = Run(make_settings({**VALUES, "streams": ("-",), "window": 20, "idle": None}))
        (agreed,) = forms(run)
        assert [(c.name, c.kind, c.gaps) for c in agreed.codes] == [
            ("a", "number", True), ("b", "category", True)
        ]  # fmt: skip
        assert sum(e.samples for e in run if isinstance(e, Learned)) == 30


def test_a_key_that_a_line_of_json_lacks_is_a_gap(tmp_path, monkeypatch):
    rows = [{"a": float(n), "b": "xy"[n % 2], "y": "uv"[n % 2]} for n in range(30)]
    for n in (5, 7, 25):  # among the first rows and later
        del rows[n]["a"]
    del rows[11]["b"]
    del rows[12]["a"], rows[12]["b"]  # nothing is left of it
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        made = {"streams": ("-",), "window": 20, "idle": None, "on_bad": "skip"}
        run = Run(make_settings({**VALUES, **made}))
        (agreed,) = forms(run)
        assert [(c.name, c.kind, c.gaps) for c in agreed.codes] == [
            ("a", "number", True), ("b", "category", True)
        ]  # fmt: skip
        events = list(run)
    assert sum(e.samples for e in events if isinstance(e, Learned)) == 29
    (skipped,) = [e.problem for e in events if isinstance(e, Skipped)]
    assert skipped.startswith("standard input, line 13: 'standard input' has no column 'a'")


def test_rows_that_cannot_be_used_at_all_are_refused(tmp_path):
    (tmp_path / "ward-0").mkdir()
    (tmp_path / "ward-0" / "1.csv").write_text("a,b,y\n" + ",,u\n" * 30)
    with pytest.raises(OfclError, match="no column with a value|columns that are not numbers"):
        Run(made(tmp_path, 1))
