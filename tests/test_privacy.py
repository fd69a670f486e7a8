import functools
import math

import pytest
import torch

from ofcl import OfclError, Run, make_settings
from ofcl.events import Round
from ofcl.privacy import Privacy, epsilon, system_normal
from ofcl.seeds import generator
from tests.conftest import TINY, TINY_IMAGES


def by_integration(releases, noise, delta):
    """ε from the privacy loss itself: with μ = 1/z it is normal with mean μ²/2, deviation μ."""
    mu = 2 * math.sqrt(releases) / noise
    loss = torch.linspace(-12, 12, 400_001, dtype=torch.double) * mu + mu**2 / 2
    density = torch.exp(-((loss - mu**2 / 2) ** 2) / (2 * mu**2)) / (mu * math.sqrt(2 * math.pi))
    step = (loss[1] - loss[0]).item()

    def leaked(value):  # δ(ε) = E[(1 − e^(ε − loss))₊]
        return (torch.clamp(1 - torch.exp(value - loss), min=0) * density).sum().item() * step

    low, high = 0.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if leaked(middle) > delta else (low, middle)
    return high


CASES = [(1, 2.0, 1e-5), (1, 10.0, 1e-5), (50, 30.0, 1e-6), (160, 8.0, 1e-3)]


@pytest.mark.parametrize(("releases", "noise", "delta"), CASES)
def test_epsilon_is_that_of_the_privacy_loss(releases, noise, delta):
    assert epsilon(releases, noise, delta) == pytest.approx(
        by_integration(releases, noise, delta), rel=1e-3
    )


def test_epsilon_grows_with_updates_and_falls_with_noise():
    assert epsilon(0, 1.0, 1e-5) == 0
    assert epsilon(5, 0.0, 1e-5) == math.inf
    assert epsilon(10**6, 0.1, 1e-5) == math.inf
    assert epsilon(1, 4.0, 1e-5) < epsilon(2, 4.0, 1e-5) < epsilon(2, 2.0, 1e-5)
    assert epsilon(4, 4.0, 1e-5) == pytest.approx(epsilon(1, 2.0, 1e-5))


def seeded():
    return functools.partial(torch.randn, generator=generator(0))


def test_what_is_sent_is_clipped_and_noisy():
    start = {"a": torch.zeros(200, 300), "b": torch.ones(100)}
    state = {"a": torch.full((200, 300), 5.0), "b": torch.ones(100)}
    sent = Privacy(clip=2.0, noise=0.0).noised(state, start, seeded())
    length = torch.cat([(sent[n] - start[n]).flatten() for n in sent]).norm()
    assert length == pytest.approx(2.0, rel=1e-4)
    near = {"a": start["a"] + 1e-3, "b": start["b"]}
    assert torch.allclose(Privacy(2.0, 0.0).noised(near, start, seeded())["a"], near["a"])
    noisy = Privacy(clip=2.0, noise=0.5).noised(start, start, seeded())
    assert (noisy["a"] - start["a"]).std() == pytest.approx(1.0, rel=0.02)
    assert (noisy["b"] - start["b"]).abs().max() > 0


def test_noise_of_the_operating_system_is_normal_and_never_the_same():
    drawn = system_normal(torch.Size((300, 400)))
    assert drawn.shape == (300, 400)
    assert drawn.dtype == torch.float
    assert abs(float(drawn.mean())) < 0.02
    assert float(drawn.std()) == pytest.approx(1, abs=0.01)
    for place in (-2.0, -0.5, 0.0, 1.0, 2.5):
        below = float((drawn < place).float().mean())
        assert below == pytest.approx(math.erfc(-place / math.sqrt(2)) / 2, abs=0.008)
    assert abs(float((drawn[:, ::2] * drawn[:, 1::2]).mean())) < 0.02
    assert not torch.equal(drawn, system_normal(torch.Size((300, 400))))
    assert system_normal(torch.Size(())).shape == ()


def test_noise_leaves_variances_above_zero(images):
    start = {"running_var": torch.full((500,), 0.5), "running_mean": torch.zeros(500)}
    sent = Privacy(clip=1.0, noise=1.0).noised(start, start, seeded())
    assert (sent["running_var"] > 0).all()
    assert 0.2 < (sent["running_var"] == 0.5).float().mean() < 0.4  # where it would be below
    assert (sent["running_mean"] < 0).any()
    values = {**TINY_IMAGES, "method": "bi", "dp_clip": 1.0, "dp_noise": 1.0}
    run = Run(make_settings(values), images)
    assert any("batchnorm = 'local'" in warning for warning in run.warnings)
    for _ in run:
        pass
    for client in run.clients:
        assert client.model.eval()(images.prepare(images.x_test)).isfinite().all()
    for change in ({"batchnorm": "local"}, {"dp_noise": 0.0}):
        assert not Run(make_settings({**values, **change}), images).warnings


def test_what_is_sent_without_noise_is_not_called_private(images):
    with pytest.raises(OfclError, match="fedcil sends more than the model"):
        Run(make_settings({**TINY_IMAGES, "method": "fedcil", "dp_clip": 1.0}), images)


def test_clients_measure_from_the_last_global_model(blobs):
    values = {**TINY, "method": "er", "dp_clip": 0.05, "dp_noise": 0.0}
    run, lengths, last = Run(make_settings(values), blobs), [], None
    server = run.server
    aggregate = server.aggregate

    def watched(updates):
        for update in updates:
            before = last or dict(server.model)
            way = [update.state[n] - before[n] for n in update.state]
            lengths.append(torch.nn.utils.get_total_norm(way).item())
        return aggregate(updates)

    server.aggregate = watched
    for event in run:
        if isinstance(event, Round):
            last = {name: value.clone() for name, value in server.model.items()}
    assert len(lengths) > 6
    assert max(lengths) <= 0.05 * 1.001
    assert run.epsilon() == math.inf


def test_a_resumed_run_draws_the_same_noise_and_counts_on(tmp_path, blobs):
    values = {**TINY, "method": "er", "dp_clip": 1.0, "dp_noise": 0.1, "checkpoint_every": 1}
    whole = Run(make_settings(values), blobs)
    for _ in whole:
        pass
    for n, _ in enumerate(Run(make_settings(values), blobs, tmp_path / "run")):
        if n == 33:
            break
    resumed = Run.resume(tmp_path / "run", blobs)
    for _ in resumed:
        pass
    assert resumed.epsilon() == whole.epsilon() > 1
    for name, value in whole.server.model.items():
        assert torch.equal(value, resumed.server.model[name])
    without = Run(make_settings({**TINY, "method": "er"}), blobs)
    assert without.epsilon() is None
