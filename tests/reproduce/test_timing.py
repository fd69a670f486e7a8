"""How long a table will take: few measurements, of which everybody is told how far they are."""

import itertools

import pytest

from ofcl.bench.workload import Bench
from ofcl.reproduce import timing
from ofcl.reproduce.field import PROTOCOLS, contests
from ofcl.reproduce.timing import Kind, Seconds, Size, batch_times, combined, what_to_time

SMALL, LARGE = Size((1, 28, 28), 10, 100), Size((3, 32, 32), 10, 200)


def kind(method, size=SMALL, *, steps=1, slow=True):
    network = ("sound", "convnet", 20, 512)
    recipe = (*network, steps, 10, "past", 1.0, "none", "new", "ce", "float32", "sgd")
    return Kind(method, size, 1, 1, "cpu", recipe, slow)


def field(tmp_path, only=None, seeds=5):
    return [
        job
        for contest in contests(seeds, PROTOCOLS, tmp_path, {"device": "cpu"}, {}, only)
        for job in contest.jobs
    ]


def test_the_whole_field_takes_about_fifty_measurements_and_says_which(tmp_path, monkeypatch):
    made, told = [], []
    monkeypatch.setattr(timing, "measure", lambda kind: made.append(kind) or Seconds(0.1, 0.5))
    assert timing.estimate(field(tmp_path), told.append) > 0
    assert len(made) == len(set(made)) == len(told) == 52
    assert told[2] == "timing 3 of 52: er, M = 200, on 3 × 32 × 32, sound"
    larger = {(k.method, k.recipe[0]) for k in made if k.size.shape == (3, 32, 32)}
    assert larger == {("er", "sound"), ("er", "strong")}


def test_other_sizes_are_scaled_by_er():
    kinds = [kind(m, size) for m in ("er", "scr") for size in (SMALL, LARGE)]
    found = what_to_time(kinds)
    scr = kind("scr", LARGE)
    assert found[scr] == [kind("scr"), kind("er"), kind("er", LARGE)]
    assert all(found[k] == [k] for k in kinds if k != scr)
    times = zip(found[scr], [Seconds(5, 2), Seconds(1), Seconds(1.5)], strict=True)
    assert combined(scr, list(times)) == Seconds(7.5, 6.0)  # twice the memory is scored


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param([kind("scr"), kind("scr", LARGE)], id="nothing says what a size costs"),
        pytest.param([kind("er"), kind("er", LARGE), kind("scr"), kind("scr", LARGE, steps=3)],
                     id="other steps"),
        pytest.param([kind(m, s, slow=False) for m in ("er", "scr") for s in (SMALL, LARGE)],
                     id="quick ones"),
    ],
)  # fmt: skip
def test_everything_else_is_timed_itself(kinds):
    assert what_to_time(kinds) == {k: [k] for k in kinds}


def test_a_round_s_seconds_are_shared_by_its_mini_batches(tmp_path, monkeypatch):
    (job,) = field(tmp_path, "cifar10/refed/sound", seeds=1)
    monkeypatch.setattr(timing, "measure", lambda kind: Seconds(1.0, 10.0))
    assert timing.estimate([job], lambda line: None) == 4750 * (1 + 10 / 5)


def test_gdumb_learns_its_memory_before_each_test(tmp_path, monkeypatch):
    (job,) = field(tmp_path, "cifar10/gdumb/sound", seeds=1)
    monkeypatch.setattr(
        timing, "measure", lambda kind: Seconds(1.0 if kind.method == "none" else 9)
    )
    epochs = job.settings.fitting_epochs
    assert timing.estimate([job], lambda line: None) == 5 * 5 * epochs * 200 / 10


def test_the_network_is_the_one_that_the_run_would_choose(tmp_path):
    (job,) = field(tmp_path, "cifar10/er/strong", seeds=1)
    settings = timing.resolved(job)
    assert (settings.model, settings.steps, settings.q) == ("slim-resnet18", 3, 5)
    workload = timing.kind_of(job, settings).workload
    assert Bench(workload).settings.model == "slim-resnet18"


def test_two_mini_batches_are_timed_at_least_and_as_many_as_fill_the_time(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    workload = kind("er", Size((1, 16, 16), 4, 8)).workload
    assert len(batch_times(Bench(workload), 0)) == 2
    times = batch_times(Bench(workload), 6)
    assert times == [1] * 6


def test_a_quick_network_is_timed_with_its_rounds(tmp_path):
    (job,) = field(tmp_path, "20newsgroups/er/sound", seeds=1)
    measured = timing.measure(timing.kind_of(job, timing.resolved(job)))
    assert measured.batch > 0
    assert measured.round == 0
