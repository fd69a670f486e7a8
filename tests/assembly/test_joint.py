"""Joint training: the data of the same run as one task, as a bound."""

import numpy as np
import pytest

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.assembly.dealing import arrivals, build_shares, task_lengths
from ofcl.events import Evaluated, Learned
from ofcl.testing.run_contract import check_run
from tests.conftest import TINY, TINY_IMAGES
from tests.support.federation import SMALL, InProcess, hosted
from tests.support.remote import assert_same, locally, remotely

JOINT = {**TINY, "protocol": "sound", "method": "er", "joint": True}


@pytest.mark.parametrize("change", [
    {}, {"limit": 3}, {"blurry": 0.3}, {"task_order": "non-overlap"},
    {"split": "dirichlet", "alpha": 1.0, "imbalance": 4.0},
], ids=str)  # fmt: skip
def test_each_client_has_the_samples_and_tests_of_the_run_without_it(blobs, change):
    apart, joint = (
        make_settings({**TINY, "seed": 3, "joint": joint, **change}) for joint in (False, True)
    )
    for one, other in zip(build_shares(apart, blobs), build_shares(joint, blobs), strict=True):
        assert one.tasks == other.tasks
        assert all(map(np.array_equal, one.test, other.test))
        assert all(map(np.array_equal, one.validation, other.validation))
        came, mixed = arrivals(apart, one), arrivals(joint, other)
        assert sorted(came) == sorted(mixed)
        assert len(other.train) == 1
        assert task_lengths(joint, other) == [-(-len(came) // apart.batch_size)]
        early = set(blobs.y_train.numpy()[mixed[: len(mixed) // 2]])
        assert all(early & set(task) for task in one.tasks)


def test_another_seed_and_another_client_mix_otherwise(blobs):
    def rows(seed):
        return [s.train[0].tolist() for s in build_shares(make_settings({**JOINT, "seed": seed}),
                                                          blobs)]  # fmt: skip

    assert rows(0) == rows(0)
    assert rows(0) != rows(1)
    assert rows(0)[0] != rows(0)[1]


def test_it_is_tested_once_on_the_classes_of_every_task(blobs):
    run = Run(make_settings(JOINT), blobs)
    events = list(run)
    told = [event for event in events if isinstance(event, Evaluated)]
    assert [(event.client, event.task) for event in told] == [(0, 0), (1, 0)]
    tasks = build_shares(run.settings, blobs)[0].tasks
    for event in told:
        assert [sorted(row[0] for row in hits) for hits in event.test] == [*map(sorted, tasks)]
        assert len(event.validation) == len(event.global_test) == 3
    assert sum(e.batches for e in events if isinstance(e, Learned)) == run.batches
    result = run.result()
    assert [np.shape(matrix) for matrix in result.accuracy] == [(1, 3)] * 2
    assert np.shape(result.global_accuracy) == (1, 3)
    assert result.A == pytest.approx(np.mean(result.accuracy))
    assert (result.F, result.global_F) == (None, None)


def test_it_keeps_what_every_run_promises(blobs):
    assert check_run(Run(make_settings(JOINT), blobs)).A > 80


def test_it_replays_from_the_whole_memory(blobs):
    """Of one task nothing is past; without replay it would be no bound."""
    past, all_ = (ofcl.run(blobs, **JOINT, replay=replay) for replay in ("past", "all"))
    assert past.anytime_loss == all_.anytime_loss
    assert past.anytime_loss != ofcl.run(blobs, **{**JOINT, "method": "none"}).anytime_loss


@pytest.mark.parametrize("stop_after", [1, 17, 33])
def test_a_run_that_stops_goes_on(tmp_path, blobs, stop_after):
    made = make_settings({**JOINT, "checkpoint_every": 4})
    whole = ofcl.run(blobs, **JOINT)
    for n, _ in enumerate(Run(made, blobs, tmp_path / "run"), 1):
        if n == stop_after:
            break
    assert "joint = true" in (tmp_path / "run" / "settings.toml").read_text()
    resumed = ofcl.resume(tmp_path / "run", dataset=blobs)
    assert (resumed.accuracy, resumed.anytime_loss) == (whole.accuracy, whole.anytime_loss)


def test_clients_elsewhere_learn_the_same(tmp_path, images):
    settings = make_settings({**TINY_IMAGES, "method": "er", "joint": True})
    here, server = locally(settings, images)
    elsewhere, other, _ = remotely(tmp_path, settings, images)
    assert_same(server.model, other.model)
    ends = [[e for e in events if isinstance(e, Evaluated)] for events in (here, elsewhere)]
    assert ends[0] == ends[1]


def test_streams_and_parties_are_refused(tmp_path):
    with pytest.raises(OfclError, match="joint is for datasets; with --stream"):
        make_settings({"streams": ["-"], "joint": True})
    with pytest.raises(OfclError, match="joint is for datasets"):
        ofcl.run(streams=[iter([])], joint=True)
    with pytest.raises(OfclError, match="joint is a bound .* for runs on one machine"):
        hosted(tmp_path, InProcess({}), {**SMALL, "joint": True})
