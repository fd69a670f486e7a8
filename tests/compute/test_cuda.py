"""The same learner on a GPU; run by hand where there is one: pytest -m cuda."""

import copy
import gc
import weakref

import pytest
import torch

import ofcl
from ofcl import Run, make_settings
from ofcl.compute import cuda_graphs as capture
from ofcl.events import Learned
from ofcl.methods.federated.refed_importance import Importance
from ofcl.models import SlimResNet18
from tests.conftest import TINY
from tests.conftest import TINY_IMAGES as QUICK
from tests.support.remote import remotely

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TINY_IMAGES = {**QUICK, "lr": 1e-3}
"""With the larger rate and TF32, the gradients of so narrow a network grow in one run of some three
hundred until the loss is not a number: BatchNorm divides by the deviation of dead channels."""


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


def test_prototypes_on_cuda_are_those_of_the_cpu(blobs):
    values = {**TINY, "classifier": "nearest-mean", "closing_round": "task", "limit": 3}
    runs = [Run(make_settings({**values, "device": device}), blobs) for device in ("cpu", "cuda")]
    for run in runs:
        list(run)
    cpu, cuda = (run.server.prototypes for run in runs)
    assert torch.equal(cpu["prototype_counts"], cuda["prototype_counts"].cpu())
    assert torch.allclose(cpu["prototypes"], cuda["prototypes"].cpu(), atol=0.05)


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


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"aggregation": "weighted", "previous_start": "initial"},
        {"clip_norm": 1.0},
        {"method": "mfcl", "synthetic": 8, "generator_steps": 2},
        {"method": "fedcil", "synthetic": 8, "generator_steps": 2, "consolidation": 1},
        {"classifier": "nearest-mean", "closing_round": "task"},
    ],
    ids=str,
)
def test_what_comes_from_another_process_is_brought_to_the_device(tmp_path, images, change):
    settings = make_settings({**TINY_IMAGES, "method": "er", **change, "device": "cuda"})
    _, server, _ = remotely(tmp_path, settings, images)
    assert server.round > 0
    assert all(value.is_cuda for value in (server.model | server.prototypes).values())
    assert bool(server.prototypes) == ("classifier" in change)


def test_a_private_run_is_resumed_on_cuda(tmp_path, images):
    values = {**TINY_IMAGES, "method": "er", "dp_clip": 1.0, "dp_noise": 0.01, "device": "cuda",
              "checkpoint_every": 5}  # fmt: skip
    for n, _ in enumerate(Run(make_settings(values), images, tmp_path / "run")):
        if n == 17:
            break
    assert ofcl.resume(tmp_path / "run", dataset=images).rounds > 0


@pytest.fixture
def full_precision(monkeypatch):
    """No TF32, and no kernels that add in an order of their own: BatchNorm magnifies rounding."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # matrices: off by default
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def losses_and_model(values, data):
    run = Run(make_settings(values), data)
    losses = torch.tensor([event.loss for event in run if isinstance(event, Learned)])
    clients = [c.model.state_dict() for c in run.clients]
    return losses, clients


@pytest.mark.parametrize("aggregation", ["fedavg", "fedprox"])
@pytest.mark.parametrize("loss", ["ce", "ace"])
@pytest.mark.parametrize(("kind", "optimizer"), [("image", "sgd"), ("vector", "adam")])
def test_captured_steps_are_the_plain_ones(
    monkeypatch, full_precision, blobs, images, kind, optimizer, loss, aggregation
):
    """In float32, and over so few mini-batches that rounding has not grown."""
    data, tiny = (blobs, TINY) if kind == "vector" else (images, TINY_IMAGES)
    values = {**tiny, "method": "er", "loss": loss, "aggregation": aggregation, "steps": 3,
              "optimizer": optimizer, "lr": 1e-3, "device": "cuda"}  # fmt: skip
    captured = losses_and_model(values, data)
    monkeypatch.setattr(capture, "PLAIN_CALLS", 10**9)
    plain = losses_and_model(values, data)
    assert torch.allclose(captured[0], plain[0], rtol=1e-4)
    for ours, theirs in zip(captured[1], plain[1], strict=True):
        for name, value in ours.items():
            assert torch.allclose(value, theirs[name], rtol=1e-4, atol=1e-5), name


FIELD = ["der", "scr", "mir", "gdumb", "icarl", "lwf", "ewc", "refed", "fedcbdr", "glfc"]
"""Methods with captured steps of their own; `target` takes the plain path, as `mfcl` does."""

FIELD_QUICK = {"fitting_epochs": 3, "mir_candidates": 8, "lr": 1e-3, "device": "cuda"}


@pytest.mark.parametrize("method", FIELD)
@pytest.mark.parametrize("kind", ["vector", "image"])
def test_captured_steps_of_the_fields_methods_are_the_plain_ones(
    monkeypatch, full_precision, blobs, images, kind, method
):
    data, tiny = (blobs, TINY) if kind == "vector" else (images, TINY_IMAGES)
    values = {**tiny, **FIELD_QUICK, "method": method}
    captured = losses_and_model(values, data)
    monkeypatch.setattr(capture, "PLAIN_CALLS", 10**9)
    plain = losses_and_model(values, data)
    assert torch.allclose(captured[0], plain[0], rtol=1e-3)
    for ours, theirs in zip(captured[1], plain[1], strict=True):
        for name, value in ours.items():
            assert torch.allclose(value, theirs[name], rtol=1e-3, atol=1e-4), name


@pytest.mark.parametrize("method", FIELD)
def test_the_fields_methods_are_captured(images, method):
    run = Run(make_settings({**TINY_IMAGES, **FIELD_QUICK, "method": method}), images)
    for _ in run:
        pass
    for client in run.clients:
        assert client.learner._captured._recordings


@pytest.mark.parametrize("kind", ["vector", "image"])
def test_runs_of_refed_capture_the_importance(blobs, images, kind):
    data, tiny = (blobs, TINY) if kind == "vector" else (images, TINY_IMAGES)
    run = Run(make_settings({**tiny, **FIELD_QUICK, "method": "refed"}), data)
    for _ in run:
        pass
    for client in run.clients:
        assert client.learner.memory.policy.scorer._gradients._captured._recordings


@pytest.mark.parametrize("n", [10, 140])
def test_captured_importances_of_refed_are_those_of_the_cpu(full_precision, n):
    torch.manual_seed(0)
    model = SlimResNet18(3, 4, width=4).to(memory_format=torch.channels_last)
    x, y = torch.randn(n, 3, 32, 32), torch.arange(n) % 4
    cpu, cuda = (Importance(each, lr=0.01) for each in (model, copy.deepcopy(model).cuda()))
    for round_ in range(3):  # the first way is made by plain calls, later ones by replayed graphs
        for _ in range(2):
            ours = cuda.importance(x.cuda(), y.cuda()).cpu()
            assert torch.allclose(ours, cpu.importance(x, y), rtol=1e-3), round_
        for each in (cpu, cuda):
            each.round_passed("after-round")
    assert cuda._gradients._captured._recordings
    assert cuda._gradients._most == 128  # no layer is missed, and no sample taken by itself


@pytest.mark.parametrize("method", [*FIELD, "target"])
def test_the_fields_methods_are_resumed_on_cuda(tmp_path, images, method):
    few = {"synthetic": 8, "generator_steps": 2, "checkpoint_every": 5}
    values = {**TINY_IMAGES, **few, **FIELD_QUICK, "method": method}
    whole = ofcl.run(images, **values)
    for n, _ in enumerate(Run(make_settings(values), images, tmp_path / "run")):
        if n == 17:
            break
    resumed = ofcl.resume(tmp_path / "run", dataset=images)
    assert (resumed.rounds, resumed.bytes_sent) == (whole.rounds, whole.bytes_sent)
    assert resumed.anytime_loss == pytest.approx(whole.anytime_loss, rel=0.2)


@pytest.mark.parametrize("method", ["scr", "icarl", "ewc", "fedcbdr", "glfc", "target"])
def test_what_the_fields_methods_send_is_brought_to_the_device(tmp_path, images, method):
    few = {"synthetic": 8, "generator_steps": 2}
    settings = make_settings({**TINY_IMAGES, **few, **FIELD_QUICK, "method": method})
    _, server, _ = remotely(tmp_path, settings, images)
    assert server.round > 0
    assert all(value.is_cuda for value in (server.model | server.prototypes).values())


@pytest.mark.parametrize("method", FIELD)
def test_the_fields_methods_capture_anew_when_a_stream_brings_new_classes(tmp_path, method):
    def readings(seed):
        draw = torch.Generator().manual_seed(seed)
        for n in range(100):
            label = n // 25
            yield torch.randn(4, generator=draw) + 3 * label, f"class {label}"

    values = {"method": method, "memory": 30, "burn_in": 2, "clients": 2, "steps": 2,
              "data_root": str(tmp_path), **FIELD_QUICK}  # fmt: skip
    run = Run(make_settings(values), streams=[readings(0), readings(1)])
    for event in run:
        assert not isinstance(event, Learned) or event.loss == event.loss  # a number
    for client in run.clients:
        assert len(client.model.head.bias) == 4


def remembered(run):
    """Which samples the clients remember at the end of a run."""
    for _ in run:
        pass
    return [set(c.learner.memory.samples.id.tolist()) for c in run.clients]


@pytest.mark.parametrize(("kind", "augment"), [("image", "strong"), ("vector", "noise")])
def test_captured_steps_of_the_stronger_recipe_are_the_plain_ones(
    monkeypatch, full_precision, blobs, images, kind, augment
):
    data, tiny = (blobs, TINY) if kind == "vector" else (images, TINY_IMAGES)
    values = {**tiny, "method": "cbr", "loss": "ace", "replay": "all", "replay_ratio": 2,
              "augment": augment, "augmented": "all", "contrast": 0.5, "distil": 0.5, "lr": 1e-3,
              "device": "cuda"}  # fmt: skip
    captured = losses_and_model(values, data)
    monkeypatch.setattr(capture, "PLAIN_CALLS", 10**9)
    plain = losses_and_model(values, data)
    assert torch.allclose(captured[0], plain[0], rtol=1e-3)
    for ours, theirs in zip(captured[1], plain[1], strict=True):
        for name, value in ours.items():
            assert torch.allclose(value, theirs[name], rtol=1e-3, atol=1e-4), name


def test_captured_steps_in_bfloat16_are_the_plain_ones_and_near_those_in_float32(
    monkeypatch, full_precision, images
):
    values = {**TINY_IMAGES, "method": "cbr", "loss": "ace", "replay": "all", "augment": "strong",
              "augmented": "all", "contrast": 0.5, "distil": 0.5, "lr": 1e-3, "device": "cuda",
              "precision": "bfloat16"}  # fmt: skip
    exact = losses_and_model({**values, "precision": "float32"}, images)
    captured = losses_and_model(values, images)
    monkeypatch.setattr(capture, "PLAIN_CALLS", 10**9)
    plain = losses_and_model(values, images)
    assert torch.allclose(captured[0], plain[0], rtol=1e-2)
    # Later losses of so narrow a network differ by more: rounding grows with every step.
    assert torch.allclose(captured[0][:2], exact[0][:2], rtol=5e-2)
    assert not torch.equal(captured[0], exact[0])
    for model in captured[1]:
        assert not any(value.dtype == torch.bfloat16 for value in model.values())


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("rescore", ["at-risk", "every-round"])
def test_captured_scores_are_the_plain_ones(monkeypatch, full_precision, images, rescore, mode):
    """The memories hold the same samples at the end."""
    values = {**TINY_IMAGES, "method": "bi", "rescore": rescore, "lr": 1e-4, "device": "cuda",
              "scoring_mode": mode}  # fmt: skip

    captured = remembered(Run(make_settings(values), images))
    monkeypatch.setattr(capture, "PLAIN_CALLS", 10**9)
    plain = remembered(Run(make_settings(values), images))
    for ours, theirs in zip(captured, plain, strict=True):
        assert len(ours & theirs) >= len(theirs) - 1  # two scores may be as good as the same


@pytest.mark.parametrize(
    "change",
    [
        {"method": "loss"},
        {"method": "loss", "keep": "weighted", "scoring_mode": "train", "rescore": "every-round"},
        {"keep": "spread", "score_scale": "rank", "replay_draw": "key"},
        {"keep": "diverse", "label_noise": 0.2, "input_noise": 0.2},
    ],
    ids=str,
)
def test_captured_scores_choose_like_the_plain_ones(monkeypatch, full_precision, images, change):
    values = {**TINY_IMAGES, "method": "bi", "lr": 1e-4, "device": "cuda", **change}
    captured = remembered(Run(make_settings(values), images))
    monkeypatch.setattr(capture, "PLAIN_CALLS", 10**9)
    plain = remembered(Run(make_settings(values), images))
    for ours, theirs in zip(captured, plain, strict=True):
        assert len(ours & theirs) >= len(theirs) - 1  # two scores may be as good as the same


@pytest.mark.parametrize("protocol", ["sound", "published"])
def test_graphs_are_captured_and_replayed(images, protocol):
    values = {**TINY_IMAGES, "method": "bi", "protocol": protocol, "device": "cuda"}
    run = Run(make_settings(values), images)
    for _ in run:
        pass
    for client in run.clients:
        assert client.learner._captured._recordings
        assert client.learner.memory.policy.scorer._captured._recordings


def test_graphs_of_an_earlier_run_are_not_collected_in_the_middle_of_a_capture():
    device, x = torch.device("cuda"), torch.ones(3)

    def in_a_circle():
        """Something captured that only the collector can free, as clients are."""
        captured = capture.Captured(lambda x: x + 1, device)
        captured.itself = captured
        for _ in range(3):
            captured(x)
        return weakref.ref(captured)

    def littering(x):
        """Leaves enough objects behind that the collector starts, if it may."""
        litter = [[] for _ in range(100_000)]
        alive.append(gone() is not None)
        return x + len(litter)

    alive = []
    gone = in_a_circle()
    capturing = capture.Captured(littering, device)
    with capture.no_collection():  # only what happens during the capture counts
        for _ in range(capture.PLAIN_CALLS):
            capturing(x)
    assert capturing(x).tolist() == [100_001.0] * 3
    assert alive[-1]
    gc.collect()
    assert gone() is None


def test_a_stream_that_brings_new_classes_captures_anew(monkeypatch, tmp_path):
    def readings(seed):
        draw = torch.Generator().manual_seed(seed)
        for n in range(300):
            label = n // 60
            yield torch.randn(4, generator=draw) + 3 * label, f"class {label}"

    values = {"method": "bi", "memory": 30, "burn_in": 2, "device": "cuda", "clients": 2,
              "data_root": str(tmp_path)}  # fmt: skip

    captured = remembered(Run(make_settings(values), streams=[readings(0), readings(1)]))
    monkeypatch.setattr(capture, "PLAIN_CALLS", 10**9)
    plain = remembered(Run(make_settings(values), streams=[readings(0), readings(1)]))
    for ours, theirs in zip(captured, plain, strict=True):
        assert len(ours & theirs) >= len(theirs) - 2  # two scores may be as good as the same
