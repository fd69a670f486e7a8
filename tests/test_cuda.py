"""The same learner on a GPU; run by hand where there is one: pytest -m cuda."""

import pytest
import torch

import ofcl
from ofcl import Run, make_settings
from tests.conftest import TINY, TINY_IMAGES

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("method", ["none", "er", "bi"])
@pytest.mark.parametrize("protocol", ["sound", "published"])
@pytest.mark.parametrize("kind", ["vector", "image"])
def test_cuda_draws_and_learns_like_the_cpu(blobs, images, kind, method, protocol):
    data, tiny = (blobs, TINY) if kind == "vector" else (images, TINY_IMAGES)
    values = {**tiny, "method": method, "protocol": protocol, "limit": 3, "burn_in": 1}
    runs = [Run(make_settings({**values, "device": device}), data) for device in ("cpu", "cuda")]
    cpu, cuda = ([event for event in run if hasattr(event, "loss")] for run in runs)
    # The draws are the same, the arithmetic nearly: before anything is learned it can be seen.
    for one, other in zip(cpu[:2], cuda[:2], strict=True):
        assert (other.client, other.samples) == (one.client, one.samples)
        assert other.loss == pytest.approx(one.loss, rel=1e-2)
    assert runs[0].result().rounds == runs[1].result().rounds > 0


@pytest.mark.parametrize("method", ["er", "bi", "mfcl", "fedcil"])
def test_resume_on_cuda(tmp_path, images, method):
    few = {"synthetic": 8, "generator_steps": 2, "consolidation": 1}
    values = {**TINY_IMAGES, **few, "method": method, "checkpoint_every": 5, "device": "cuda"}
    whole = ofcl.run(images, **values)
    for n, _ in enumerate(Run(make_settings(values), images, tmp_path / "run")):
        if n == 17:
            break
    resumed = ofcl.resume(tmp_path / "run", dataset=images)
    assert resumed.rounds == whole.rounds
    assert resumed.bytes_sent == whole.bytes_sent
    losses = [run.anytime_loss for run in (whole, resumed)]
    assert losses[1] == pytest.approx(losses[0], rel=0.2)
