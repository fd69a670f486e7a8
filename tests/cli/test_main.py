"""The command line as a user types it."""

import json
import signal
import time

import pytest
import torch

from ofcl import load_dataset
from ofcl.cli import main
from tests.support.commands import Command, in_one_process, ofcl

pytestmark = in_one_process

RUN = ["run", "--protocol", "sound", "--dataset", "digits", "--set", "model=mlp",
       "--set", "hidden=32", "--memory", "50", "--clients", "2", "--set", "burn_in=2",
       "--set", "q=2"]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of one experiment and one of another."""
    folder = tmp_path_factory.mktemp("runs")
    for method, seed in (("er", 0), ("er", 1), ("none", 0)):
        code, _, err = ofcl(*RUN, "--limit", 6, "--method", method, "--seed", seed,
                            "--out", folder / f"{method}-{seed}")  # fmt: skip
        assert code == 0, err
    return folder


def test_joint_training_is_the_bound_of_a_comparison(tmp_path, runs):
    code, _, err = ofcl(*RUN, "--limit", 6, "--method", "er", "--joint", cwd=tmp_path)
    assert code == 0, err
    assert "task 1/1 ended" in err
    (directory,) = (tmp_path / "runs").iterdir()
    assert directory.name.startswith("digits-er-joint-seed0-")
    code, out, _ = ofcl("compare", runs, directory, "--json")
    lines = {(line["settings"]["method"], line["settings"]["joint"]): line
             for line in json.loads(out)}  # fmt: skip
    gap = lines["er", False]["below_joint"]
    joint, er = lines["er", True]["A"]["mean"], lines["er", False]["A_by_seed"]["0"]
    assert gap["A"]["mean"] == pytest.approx(joint - sum(er) / 2)
    assert gap["seeds"] == 1
    assert lines["none", False]["below_joint"] is None
    code, _, err = ofcl("run", "--stream", "-", "--joint")
    assert (code, "joint is for datasets" in err) == (2, True)


def test_a_run_shows_its_tasks_and_its_result(tmp_path):
    code, out, err = ofcl(*RUN, "--method", "bi", "--limit", 4, cwd=tmp_path)
    assert code == 0
    assert [f"task {n}/5 ended" in err for n in range(1, 6)] == [True] * 5
    assert "average accuracy at the end" in out
    (directory,) = (tmp_path / "runs").iterdir()
    assert directory.name.startswith("digits-bi-seed0-")
    assert f"saved in runs/{directory.name}" in out
    names = {p.name for p in directory.iterdir()}
    assert {"settings.toml", "events.jsonl", "checkpoint", "result.json"} <= names
    result = json.loads((directory / "result.json").read_text())
    wanted = {"A", "F", "accuracy", "global_A", "global_F", "rounds", "bytes_sent", "seconds"}
    assert wanted <= result.keys()


def test_json_and_quiet(tmp_path):
    code, out, err = ofcl(*RUN, "--limit", 4, "--json", "--out", tmp_path / "run")
    assert code == 0
    assert err == ""
    assert json.loads(out)["rounds"] == 5
    code, out, err = ofcl("resume", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["rounds"] == 5
    assert "is finished" in err


def test_compare(runs):
    code, out, _ = ofcl("compare", runs)
    assert code == 0
    assert "er" in out
    assert "±" in out
    code, out, _ = ofcl("compare", runs / "er-0", runs / "er-1", runs / "none-0", "--json")
    lines = {line["settings"]["method"]: line for line in json.loads(out)}
    assert lines["er"]["seeds"] == [0, 1]
    results = [json.loads((runs / f"er-{s}" / "result.json").read_text())["A"] for s in (0, 1)]
    assert lines["er"]["A"]["mean"] == pytest.approx(sum(results) / 2)
    assert lines["er"]["A"]["std"] == pytest.approx(abs(results[0] - results[1]) / 2**0.5)
    assert lines["none"]["A"]["std"] is None


def test_a_settings_file_and_its_overrides(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('dataset = "digits"\nmodel = "mlp"\nclients = 2\nmethod = "er"\nmemory = 20\n')
    code, out, err = ofcl("run", file, "--memory", 30, "--limit", 2, "--out", tmp_path / "run")
    assert code == 0, err
    settings = (tmp_path / "run" / "settings.toml").read_text()
    assert "memory = 30" in settings
    assert 'method = "er"' in settings
    # The settings of a run are a settings file.
    code, again, err = ofcl("run", tmp_path / "run" / "settings.toml", "--out", tmp_path / "again")
    assert code == 0, err
    results = [json.loads((tmp_path / d / "result.json").read_text()) for d in ("run", "again")]
    assert {**results[0], "seconds": 0} == {**results[1], "seconds": 0}


@pytest.mark.parametrize("what", ["datasets", "methods", "protocols", "models", "settings"])
def test_list(what):
    code, out, _ = ofcl("list", what)
    examples = {"datasets": "fashion-mini", "methods": "Bregman", "protocols": "published",
                "models": "slim-resnet18", "settings": "participation"}  # fmt: skip
    assert code == 0
    assert examples[what] in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--method", "bregman"], "unknown method 'bregman'"),
        (["run", "--dataset", "digit"], "Did you mean 'digits'"),
        (["run", "--protocol", "publish"], "Did you mean 'published'"),
        (["run", "--set", "batch_size=0"], "batch_size = 0"),
        (["run", "--set", "nonsense"], "write it as key=value"),
        (["run", "--memory", "3"], "memory = 3 is smaller than the number of classes"),
        (["run", "--tasks", "11"], "11 tasks need at least 11 classes"),
        (["run", "--clients", "-1"], "clients = -1"),
        (["run", "--clients", "100000"], "without data"),
        (["run", "--device", "cuda:9"], "is not there"),
        (["run", "none.toml"], "no settings file 'none.toml'"),
        (["resume", "nowhere"], "is not a run directory"),
        (["compare", "nowhere"], "no such directory"),
        (["list", "method"], "Did you mean 'methods'"),
        (["run", "--memory", "many"], "Invalid value"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, arguments, message):
    code, out, err = ofcl(*arguments, cwd=tmp_path)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_saves_and_resume_goes_on(tmp_path):
    command = Command(*RUN, "--set", "batch_size=1", "--limit", 40, "--out", tmp_path / "run")
    events = tmp_path / "run" / "events.jsonl"
    deadline = time.monotonic() + 60
    while not (events.exists() and events.stat().st_size > 2000):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    command.send(signal.SIGINT)
    code, _, err = command.wait()
    assert code == 130
    assert "stopped; go on with: ofcl resume" in err
    code, out, err = ofcl("resume", tmp_path / "run")
    assert code == 0, err
    assert (tmp_path / "run" / "result.json").exists()


def test_version_and_help():
    assert ofcl("--version")[1].startswith("ofcl 0.")
    code, out, _ = ofcl("run", "--help")
    assert code == 0
    assert "--aggregation" in out


def test_a_limit_shortens_learning_alone_and_its_help_says_so(runs):
    events = [
        json.loads(line) for line in (runs / "er-0" / "events.jsonl").read_text().splitlines()
    ]
    learned = sum(event["batches"] for event in events if event["event"] == "learned")
    assert learned == 6 * 5 * 2  # tasks, clients
    last = [e["test"] for e in events if e["event"] == "evaluated" and e["task"] == 4]
    tested = sum(row[2] for tasks in last for rows in tasks for row in rows)
    assert tested == len(load_dataset("digits").y_test)
    help_of_limit = " ".join(ofcl("run", "--help")[1].replace("│", " ").split())
    assert "Tests are whole: A stays comparable" in help_of_limit
    assert "--set test_per_class=N" in help_of_limit


def test_several_seeds_are_like_separate_runs(tmp_path):
    few = [*RUN, "--method", "bi", "--limit", 4, "-q"]
    code, out, err = ofcl(*few, "--seeds", "0,3", "--out", tmp_path / "both")
    assert code == 0, err
    assert f"saved in {tmp_path / 'both'}" in out
    code, _, err = ofcl(*few, "--seed", 3, "--out", tmp_path / "alone")
    assert code == 0, err
    results = [
        json.loads((tmp_path / name / "result.json").read_text())
        for name in ("both/seed3", "alone")
    ]
    assert {**results[0], "seconds": 0} == {**results[1], "seconds": 0}


def test_several_seeds_go_on_where_they_were_stopped(tmp_path):
    few = [*RUN, "--method", "er", "--limit", 4, "-q", "--out", tmp_path]
    code, _, err = ofcl(*few, "--seeds", "0")
    assert code == 0, err
    result, kept = tmp_path / "seed0" / "result.json", tmp_path / "kept.json"
    result.rename(kept)
    code, _, err = ofcl(*few, "--seeds", "0,1")  # as if it had been stopped at its end
    assert code == 0, err
    first, again = (json.loads(path.read_text()) for path in (kept, result))
    assert {**first, "seconds": 0} == {**again, "seconds": 0}
    assert (tmp_path / "seed1" / "result.json").exists()
    for changed, message in (
        ("burn_in=3", "was made with burn_in = 2, not 3"),
        ("lr=0.5", "was made with lr = 0.003, not 0.5"),
        ("tasks=2", "was made with tasks = 5, not 2"),
        ("dataset=fashion-mini", "was made with dataset = 'digits', not 'fashion-mini'"),
    ):
        code, _, err = ofcl(*few, "--seeds", "0", "--set", changed)
        assert code == 2
        assert message in err
    code, out, _ = ofcl(*few, "--seeds", "0,1", "--json")
    assert code == 0
    assert json.loads(out)["lines"][0]["seeds"] == [0, 1]
    code, _, err = ofcl(*few, "--seeds", "0", "--seed", 1)
    assert (code, "not both" in err) == (2, True)


@pytest.mark.parametrize("seeds", ["", "a", "1;2", "-1"])
def test_seeds_that_are_none(seeds):
    code, _, err = ofcl(*RUN, "--seeds", seeds)
    assert code == 2
    assert "expected numbers with commas" in err


def test_bench_prints_saves_and_draws(tmp_path):
    small = ["--shape", "16", "--classes", 4, "--memory", 20, "--clients", 2, "--seconds", 0.01]
    code, out, err = ofcl("bench", *small, "--grow", "clients", "--methods", "er,bi",
                          "--json", tmp_path / "b.json", "--plot", tmp_path / "b.svg")  # fmt: skip
    assert code == 0, err
    saved = json.loads((tmp_path / "b.json").read_text())
    assert saved["whole"].keys() == {"er", "bi"}
    assert saved["parts"]["bi"]["score"] > 0 == saved["parts"]["er"]["score"]
    assert list(saved["growth"]["clients"]["bi"]) == ["1", "5", "20"]
    assert f"{saved['whole']['bi']:.2f}" in out
    assert "<svg" in (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--methods", "mfcl", "not for mfcl"),
        ("--methods", "bx", "unknown method 'bx'"),
        ("--shape", "3y3", "expected something like"),
        ("--grow", "age", "unknown dimension 'age'"),
        ("--against", "nowhere", "is not a checkout"),
    ],
)
def test_bench_refuses(option, value, message):
    small = ["--shape", "16", "--seconds", 0.01, "--methods", "er"]
    code, _, err = ofcl("bench", *small, option, value)
    assert code == 2
    assert message in err


def test_bench_with_a_protocol_and_large_batches():
    code, _, err = ofcl("bench", "--shape", 16, "--classes", 4, "--memory", 21, "--seconds", 0.01,
                        "--grow", "", "--methods", "er,bi", "--set", "protocol=published",
                        "--set", "batch_size=400")  # fmt: skip
    assert code == 0, err


def test_a_gpu_that_is_too_small_is_said_in_a_line(monkeypatch, capsys):
    def app():
        raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB.\nMore.")

    monkeypatch.setattr(main, "app", app)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "memory is too small: Tried to allocate 2.00 GiB. Use --set recompute=true" in said
    assert "More" not in said
