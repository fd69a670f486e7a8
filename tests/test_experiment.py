import signal
from dataclasses import replace

import pytest
import torch

import ofcl
from ofcl import Dataset, OfclError, Run, make_settings
from ofcl.engines.outcomes import Outcomes
from ofcl.events import Learned, Round
from ofcl.experiment import Interrupted
from ofcl.storage import save_timer
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.run_directory import RunDirectory
from tests.conftest import TINY, TINY_IMAGES, make_blobs


def settings(**values):
    return make_settings({**TINY, **values})


def whole(path):
    """What must be the same however often a run was interrupted."""
    result = RunDirectory(path).result().to_json()
    checkpoint = load_checkpoint(path / "checkpoint", print)
    return {**result, "seconds": 0}, checkpoint.state


def assert_same(first, second):
    if isinstance(first, torch.Tensor):
        assert torch.equal(first.isnan(), second.isnan())  # keys that were not asked for
        assert torch.equal(first.nan_to_num(), second.nan_to_num())
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        assert first == second


@pytest.mark.parametrize(("method", "protocol", "kind"), [
    ("bi", "sound", "vector"), ("bi", "published", "vector"), ("er", "sound", "image"),
    ("bi", "published", "image"), ("bi", "sound", "image"), ("cbr", "strong", "vector"),
    ("cbr", "strong", "image")])  # fmt: skip
def test_a_run_that_stops_anywhere_ends_like_one_that_did_not(
    tmp_path, blobs, images, method, protocol, kind
):
    data, tiny = (blobs, TINY) if kind == "vector" else (images, {**TINY_IMAGES, "steps": 1})
    values = {"method": method, "protocol": protocol, "checkpoint_every": 7,
              "aggregation": "fedprox", "dropout": 0.2, "min_clients": 1}  # fmt: skip
    made = make_settings({**tiny, **values})
    for _ in Run(made, data, tmp_path / "whole"):
        pass
    for stop_after in (1, 2, 11, 24, 40, 58) if kind == "vector" else (2, 24, 58):
        broken = tmp_path / f"stopped after {stop_after}"
        for n, _ in enumerate(Run(made, data, broken), 1):
            if n == stop_after:
                break  # like a kill: nothing is saved on the way out
        for _ in Run.resume(broken, data):
            pass
        for one, other in zip(whole(tmp_path / "whole"), whole(broken), strict=True):
            assert_same(one, other)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, blobs):
    handler = signal.getsignal(signal.SIGINT)
    run = Run(settings(method="er"), blobs, tmp_path / "run")
    with pytest.raises(Interrupted, match="ofcl resume"):
        for n, _ in enumerate(run):
            if n == 9:
                signal.raise_signal(signal.SIGINT)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint", print)
    assert checkpoint.events == 10
    result = ofcl.resume(tmp_path / "run", dataset=blobs)
    assert {**result.to_json(), "seconds": 0} == {
        **ofcl.run(blobs, method="er", **TINY).to_json(),
        "seconds": 0,
    }
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("change", ["more rows", "another split", "other numbers"])
def test_a_run_does_not_go_on_with_other_data(tmp_path, blobs, change):
    next(iter(Run(settings(), blobs, tmp_path / "run")))
    other = {
        "more rows": {"x_train": torch.cat([blobs.x_train, blobs.x_train[:1]]),
                      "y_train": torch.cat([blobs.y_train, blobs.y_train[:1]])},
        "another split": {"x_test": blobs.x_test[1:], "y_test": blobs.y_test[1:]},
        "other numbers": {"x_train": blobs.x_train + 1e-3},
    }[change]  # fmt: skip
    with pytest.raises(OfclError, match="the data are not those with which"):
        ofcl.resume(tmp_path / "run", dataset=replace(blobs, **other))
    assert ofcl.resume(tmp_path / "run", dataset=blobs).rounds > 0


@pytest.mark.parametrize("engine", ["local", "flower-sim"])
def test_samples_to_test_on_are_for_streams(blobs, engine):
    with pytest.raises(OfclError, match="test is for streams"):
        ofcl.run(blobs, test=[([0.0] * 4, "a")], engine=engine, **TINY)


def test_events_of_a_resumed_run_are_counted_once(tmp_path, blobs):
    run = Run(settings(checkpoint_every=10), blobs, tmp_path / "run")
    for n, _ in enumerate(run, 1):
        if n == 25:
            break
    directory = RunDirectory(tmp_path / "run")
    with directory.open_events() as file:
        file.write('{"event": "learned", "cli')  # a line that a crash cut short
    ofcl.resume(tmp_path / "run", dataset=blobs)
    events = directory.events()
    assert [event["n"] for event in events] == list(range(len(events)))
    learned = sum(event["batches"] for event in events if event["event"] == "learned")
    assert learned == run.batches


def test_a_finished_run_is_read_and_not_run_again(tmp_path, blobs):
    first = ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    assert ofcl.resume(tmp_path / "run") == first


def test_a_directory_that_exists_is_refused(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    with pytest.raises(OfclError, match=r"exists; go on with it: ofcl resume .*give another"):
        ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(OfclError, match="exists; give another directory"):
        ofcl.run(blobs, out=tmp_path / "other", method="er", **TINY)
    assert (tmp_path / "other" / "file").read_text() == "mine"


def test_two_processes_cannot_work_on_one_run(tmp_path, blobs):
    first = iter(Run(settings(), blobs, tmp_path / "run"))
    next(first)
    with pytest.raises(OfclError, match="in use by another process"):
        Run.resume(tmp_path / "run", blobs)
    first.close()
    assert ofcl.resume(tmp_path / "run", dataset=blobs).A is not None


def test_the_settings_of_a_run_are_complete(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    text = (tmp_path / "run" / "settings.toml").read_text()
    saved = RunDirectory(tmp_path / "run").settings()
    assert saved.model == "mlp"
    assert saved.lr == 0.003
    for word in ('labels = [\n    "class 0"', "[made_with]", "torch = ", "seed = 0", "version = 1"):
        assert word in text


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    data = make_blobs()
    data.x_train[100:] = float("nan")
    made = settings(method="er", checkpoint_every=2, class_order="size")
    with pytest.raises(OfclError, match=r"loss of client \d is not finite \(task \d, mini-batch"):
        for _ in Run(made, data, tmp_path / "run"):
            pass
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint", print)
    models = [client["model"] for client in checkpoint.state["engine"]["clients"]]
    assert all(value.isfinite().all() for model in models for value in model.values())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "bii"}, "unknown method 'bii'; .*[Dd]id you mean '?bi"),
        ({"model": "mpl"}, "unknown model 'mpl'.*Did you mean 'mlp'"),
        ({"device": "meta"}, "device 'meta' is not supported"),
        ({"perturbations": ()}, "perturbations is empty"),
        ({"memory": 5}, "memory = 5 is smaller than the number of classes \\(6\\)"),
        ({"tasks": 7}, "7 tasks need at least 7 classes"),
        ({"clients": 500}, "without data"),
        ({"device": "cuda:77"}, "device 'cuda:77' is not there"),
        ({"device": "tpu?"}, "unknown device"),
        ({"model": "slim-resnet18"}, "slim-resnet18 needs images"),
        ({"perturbations": ("hflop",)}, "Did you mean 'hflip'"),
    ],
)
def test_what_cannot_work_with_this_data_is_refused(blobs, tmp_path, values, message):
    with pytest.raises(OfclError, match=message):
        ofcl.run(blobs, out=tmp_path / "run", **{**TINY, **values})
    assert not (tmp_path / "run").exists()


def test_warnings(blobs):
    assert "no round will happen: at most 8" in Run(settings(burn_in=99), blobs).warnings[0]
    alone = Run(settings(clients=1, protocol="published"), blobs)
    assert "1 client is not a federation" in alone.warnings[0]
    assert "never told from old ones" in Run(settings(loss="ace"), blobs).warnings[0]
    assert Run(settings(), blobs).warnings == []


def test_rounds_come_where_the_schedule_says(blobs):
    run = Run(settings(clients=2, burn_in=3, q=2), blobs)
    learned, at = {0: 0, 1: 0}, []
    for event in run:
        if isinstance(event, Learned):
            learned[event.client] += 1
        if isinstance(event, Round):
            at.append(dict(learned))
    # 76 samples a task, 38 a client, 8 mini-batches: rounds after the 4th, 6th and 8th
    expected = [8 * task + n for task in range(3) for n in (4, 6, 8)]
    assert at == [{0: n, 1: n} for n in expected]


def test_clients_in_a_round_agree_and_others_go_on_with_their_own(blobs):
    run = Run(settings(clients=4, batch_size=3, participation=0.5), blobs)
    for event in run:
        if isinstance(event, Round):
            heads = [c.model.head.weight for c in run.clients]
            in_round = [heads[k] for k in event.clients]
            others = [heads[k] for k in range(4) if k not in event.clients]
            assert len(in_round) == 2
            assert torch.equal(*in_round)
            assert not any(torch.equal(head, in_round[0]) for head in others)


def test_bytes_are_those_of_the_model(blobs):
    result = ofcl.run(blobs, **{**TINY, "method": "none", "batchnorm": "average"})
    parameters = 8 * 16 + 16 + 16 * 6 + 6
    assert result.bytes_received == result.rounds * 2 * 4 * parameters
    assert result.bytes_sent == result.bytes_received + result.rounds * 2 * 8
    # Only weighted averaging needs to know the classes: two of them, each with its count.
    result = ofcl.run(blobs, **{**TINY, "method": "none", "aggregation": "weighted"})
    assert result.bytes_sent == result.bytes_received + result.rounds * 2 * 8 * (1 + 2 * 2)


def test_a_task_without_a_round_is_warned_of():
    data = make_blobs()
    rows = torch.cat([torch.arange(80), torch.arange(80, 240, 20)])  # few samples of later classes
    small = Dataset("small", "vector", data.x_train[rows], data.y_train[rows], data.x_test,
                    data.y_test, data.labels)  # fmt: skip
    made = settings(class_order="size", validation=0.0)
    assert "no round will happen in task 2, 3: at most 1" in Run(made, small).warnings[0]


def test_the_loss_along_the_stream_is_that_of_the_new_samples(blobs):
    run = Run(settings(method="er", steps=1), blobs)
    client = run.clients[0]
    for event in run:
        if isinstance(event, Learned) and event.client == 0 and event.task == 1:
            break
    client.model.eval()
    batch = client.stream._batches[client.stream._position][1]
    with torch.no_grad():  # an MLP does not care for the mode, so the forward can be repeated
        logits = client.model(blobs.prepare(blobs.x_train[batch]))
    by_hand = torch.nn.functional.cross_entropy(logits, blobs.y_train[batch], reduction="sum")
    assert Outcomes([client.learn()]).events()[0].loss == pytest.approx(by_hand.item(), rel=1e-4)


def test_a_step_that_ruins_the_model_is_seen_at_once(tmp_path, blobs):
    made = settings(method="none", optimizer="sgd", lr=1e30, steps=1, checkpoint_every=1)
    with pytest.raises(OfclError, match="task 0, mini-batch 1"):
        for _ in Run(made, blobs, tmp_path / "run"):
            pass
    assert load_checkpoint(tmp_path / "run" / "checkpoint", print) is None


def stopped(path, data, after=20):
    for n, _ in enumerate(Run(settings(checkpoint_every=5), data, path)):
        if n == after:
            break


def test_other_data_or_changed_settings_are_refused(tmp_path, blobs):
    stopped(tmp_path / "run", blobs)
    with pytest.raises(OfclError, match="was made with the labels .*but the data have"):
        ofcl.resume(tmp_path / "run", dataset=make_blobs(classes=7))
    file = tmp_path / "run" / "settings.toml"
    file.write_text(file.read_text().replace("hidden = 16", "hidden = 17"))
    with pytest.raises(OfclError, match="does not fit the run's settings.toml"):
        ofcl.resume(tmp_path / "run", dataset=blobs)


@pytest.mark.parametrize("line", [b"\xff\xfe", b"5", b'{"a": 1}', b"null", b'{"event"'])
def test_nonsense_among_the_events_is_passed_over(tmp_path, blobs, line):
    stopped(tmp_path / "run", blobs)
    file = tmp_path / "run" / "events.jsonl"
    file.write_bytes(line + b"\n" + file.read_bytes() + line)
    expected = ofcl.run(blobs, **TINY)
    assert ofcl.resume(tmp_path / "run", dataset=blobs).A == expected.A


def test_a_directory_left_by_a_kill_while_it_was_made_can_be_used(tmp_path, blobs):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.toml.partial").write_text("vers")
    assert ofcl.run(blobs, out=tmp_path / "run", **TINY).A is not None


def test_without_a_number_of_mini_batches_a_run_is_saved_by_time(tmp_path, blobs, monkeypatch):
    made = settings(checkpoint_every=None)
    for seconds, saved in ((0, True), (1000, False)):
        monkeypatch.setattr(save_timer, "SECONDS_BETWEEN_SAVES", seconds)
        path = tmp_path / str(seconds)
        run = Run(made, blobs, path)
        for n, _ in enumerate(run):
            run._timer._saving_took = 0.0
            if n == 20:
                break
        assert any((path / "checkpoint").glob("*")) == saved
    resumed = ofcl.resume(tmp_path / "0", dataset=blobs)
    unbroken = Run(made, blobs)
    for _ in unbroken:
        pass
    assert resumed.A == unbroken.result().A
