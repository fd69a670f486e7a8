"""MFCL and FedCIL: every loss by hand, what they draw, what they send, and that they can resume."""

import copy
import math
import signal
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ofcl
from ofcl import Run, make_settings
from ofcl.data.stream import Batch
from ofcl.errors import OfclError
from ofcl.events import Round, TaskEnded
from ofcl.experiment import Interrupted
from ofcl.methods.generative import (
    fedcil_client,
    fedcil_losses,
    fedcil_server,
    mfcl_client,
    mfcl_losses,
    mfcl_server,
)
from ofcl.models.generators import ACGAN, NOISE, Critic, ImageGenerator
from ofcl.storage.image_grid import grid
from tests.conftest import TINY_IMAGES, make_blobs, make_images
from tests.test_experiment import assert_same, whole

TINY = {
    **TINY_IMAGES, "steps": 1, "synthetic": 8, "generator_steps": 3, "consolidation": 2,
    "burn_in": 1, "q": 2,
}  # fmt: skip
BOTH = pytest.mark.parametrize("method", ["mfcl", "fedcil"])


def entropy_of(*p):
    return sum(v * math.log(v) for v in p)


# MFCL, by hand


def test_label_loss_is_cross_entropy_at_a_temperature():
    logits, labels = torch.tensor([[2000.0, 0.0]]), torch.tensor([0])
    assert mfcl_losses.label_loss(logits, labels).item() == pytest.approx(
        math.log(1 + math.exp(-2))
    )
    assert mfcl_losses.label_loss(logits, labels, 2000).item() == pytest.approx(
        math.log(1 + math.exp(-1))
    )


def test_balance_loss_is_what_is_missing_to_the_largest_entropy():
    one_sided = torch.tensor([[0.0, math.log(3)]])  # softmax ¼, ¾
    expected = 1 + entropy_of(0.25, 0.75) / math.log(2)
    assert mfcl_losses.balance_loss(one_sided).item() == pytest.approx(expected)
    assert mfcl_losses.balance_loss(torch.tensor([[0.0, 9.0], [9.0, 0.0]])).item() == pytest.approx(
        0
    )


def test_statistics_loss():
    mean, variance = torch.tensor([1.0]), torch.tensor([4.0])
    running = torch.tensor([0.0]), torch.tensor([1.0])
    # ln(2 / 1) − ½ (1 − (1 + 1) / 4)
    expected = math.log(2) - 0.5 * (1 - 0.5)
    assert mfcl_losses.statistics_loss(mean, variance, *running).item() == pytest.approx(expected)
    assert mfcl_losses.statistics_loss(*running, *running).item() == pytest.approx(0)


def test_the_statistics_are_those_of_each_layer_s_input_and_hooks_go_away():
    layer = nn.BatchNorm2d(2).eval()
    layer.running_mean, layer.running_var = torch.tensor([0.5, 0.0]), torch.tensor([2.0, 1.0])
    x = torch.randn(6, 2, 3, 3)
    with mfcl_losses.watched_statistics(layer) as losses:
        layer(x)
    flat = x.transpose(0, 1).flatten(1)
    mean, variance = flat.mean(1), flat.var(1, correction=0)
    expected = mfcl_losses.statistics_loss(mean, variance, layer.running_mean, layer.running_var)
    assert torch.stack(losses).item() == pytest.approx(expected.item(), rel=1e-5)
    layer(x)
    assert len(losses) == 1


def test_smoothness_loss_of_one_bright_pixel():
    image = torch.zeros(1, 2, 9, 9)
    image[0, :, 4, 4] = 1
    bell = [math.exp(-((d / 2) ** 2)) for d in range(-2, 3)]
    total = sum(bell) ** 2
    kernel = [[a * b / total for b in bell] for a in bell]
    squares = sum((float(i == j == 2) - kernel[i][j]) ** 2 for i in range(5) for j in range(5))
    assert mfcl_losses.smoothness_loss(image).item() == pytest.approx(squares / 81, rel=1e-5)
    assert mfcl_losses.smoothness_loss(torch.ones(1, 3, 8, 8)).item() == pytest.approx(0, abs=1e-10)


def test_distillation_loss():
    head = nn.Linear(2, 3)
    head.weight.data = torch.tensor([[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]])
    new, before = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.zeros(2, 2)
    # of the old classes 0 and 1 the first sample moves by (1, 2): 5 / 2 classes, mean over two
    loss = mfcl_losses.distillation_loss(head, torch.tensor([0, 1]), new, before)
    assert loss.item() == pytest.approx(1.25)


class Student(nn.Module):
    """Features as they come, and a linear head: everything can be computed from outside."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(4, 4)

    def features(self, x):
        return x.flatten(1) * self.scale

    def forward(self, x):
        return self.head(self.features(x))


class Maker(nn.Module):
    def forward(self, noise):
        return noise[:, :4].view(-1, 1, 2, 2)


def make_mfcl(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    generator = torch.Generator().manual_seed(3)
    return mfcl_client.MFCL(model=model, optimizer=optimizer, image_generator=Maker(),
                        generator=generator, steps=1, synthetic=6)  # fmt: skip


def test_the_client_s_loss_is_the_sum_of_its_three_terms():
    torch.manual_seed(0)
    model = Student()
    learner = make_mfcl(model)
    learner.receives(model.state_dict(), {"old": torch.tensor([0, 1])})
    model.scale.data.fill_(1.5)
    x, y, current = torch.randn(3, 1, 2, 2), torch.tensor([2, 3, 2]), [2, 3]
    loss, logits = learner._loss(x, y, current)
    noise = torch.randn(6, NOISE, generator=torch.Generator().manual_seed(3))
    made = noise[:, :4]
    old_logits = model.head(made)[:, :2]  # the teacher's scale was 1, its head the same
    made_y = old_logits.argmax(1)
    both = torch.cat([x.flatten(1), made])
    first = F.cross_entropy(logits[:, 2:], y - 2)
    second = F.cross_entropy(model.head(1.5 * both), torch.cat([y, made_y]))
    moved = (0.5 * both) @ model.head.weight[:2].T
    third = 0.1 * moved.square().sum(1).mean() / 2
    assert loss.item() == pytest.approx((first + second + third).item(), rel=1e-5)
    # The second term moves the head alone.
    loss.backward()
    own = torch.autograd.grad(F.cross_entropy(learner._loss(x, y, current)[1][:, 2:], y - 2),
                              model.scale)  # fmt: skip
    assert model.scale.grad.item() == pytest.approx(
        own[0].item() + 0.1 * (both @ model.head.weight[:2].T).square().sum(1).mean().item() * 0.5,
        rel=1e-4,
    )


def test_the_first_task_is_plain_cross_entropy():
    model = Student()
    x, y = torch.randn(3, 1, 2, 2), torch.tensor([2, 3, 2])
    loss, logits = make_mfcl(model)._loss(x, y, torch.tensor([2, 3]))
    assert loss.item() == pytest.approx(F.cross_entropy(model(x), y).item())


def test_the_generator_lowers_its_loss_by_half_in_a_hundred_steps():
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
                            nn.Flatten(), nn.Linear(6 * 64, 4))  # fmt: skip
    for _ in range(30):  # smooth images of mean 0 and deviation 1, as normalised ones are
        x = F.interpolate(torch.randn(64, 1, 2, 2), size=8, mode="bilinear")
        teacher((x - x.mean()) / x.std())
    server = mfcl_server.MFCLServer(
        model=teacher, image_generator=ImageGenerator((1, 8, 8), channels=16),
        generator=torch.Generator().manual_seed(0), steps=100, batch=32,
    )  # fmt: skip
    server._seen = [0, 1]  # the label term is never below ln 2 at its temperature
    losses = server.train()
    assert len(losses) == 100
    assert sum(losses[-5:]) / 5 < losses[0] / 2


# FedCIL, by hand


def make_gan(seed=0):
    torch.manual_seed(seed)
    return ACGAN((1, 8, 8), 4, mean=(0.5,), std=(0.25,), channels=1).eval()


def test_the_critic_s_verdicts():
    real = torch.tensor([[0.0], [math.log(3)]])
    assert fedcil_losses.verdict_loss(real, True).item() == pytest.approx(
        -(math.log(0.5) + math.log(0.75)) / 2
    )
    assert fedcil_losses.verdict_loss(real, False).item() == pytest.approx(
        -(math.log(0.5) + math.log(0.25)) / 2
    )


def test_critic_and_generator_loss_are_the_sums_of_their_terms():
    gan, x, y = make_gan(), torch.randn(3, 1, 8, 8), torch.tensor([0, 1, 2])
    made, made_y = torch.randn(3, 1, 8, 8), torch.tensor([3, 3, 0])

    def verdict(images):
        return torch.sigmoid(gan.real(gan.features(images)))

    classes = F.cross_entropy(gan(x), y) + F.cross_entropy(gan(made), made_y)
    judged = -verdict(x).log().mean() - (1 - verdict(made)).log().mean()
    loss, logits, made_logits = fedcil_losses.critic_loss(gan, x, y, made, made_y)
    assert torch.allclose(logits, gan(x))
    assert torch.allclose(made_logits, gan(made))
    assert loss.item() == pytest.approx((classes + judged).item(), rel=1e-4)
    deceived = -verdict(made).log().mean() + F.cross_entropy(gan(made), made_y)
    found = fedcil_losses.generator_loss(gan, made, made_y)
    assert found.item() == pytest.approx(deceived.item(), rel=1e-4)


def test_the_critic_s_loss_does_not_move_the_generator():
    gan = make_gan()
    noise = torch.randn(3, 104)
    made = gan.make(noise, torch.tensor([0, 1, 2]))
    y = torch.tensor([0, 1, 2])
    loss, _, _ = fedcil_losses.critic_loss(gan, torch.randn(3, 1, 8, 8), y, made, y)
    loss.backward()
    assert all(p.grad is None for p in gan.generator.parameters())
    assert gan.head.weight.grad is not None


def test_divergence():
    target, logits = torch.tensor([[0.0, math.log(3)]]), torch.zeros(1, 2)
    logits.requires_grad_()
    target.requires_grad_()
    loss = fedcil_losses.divergence(target, logits)
    assert loss.item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    loss.backward()
    assert target.grad is None  # it is what the other shall come to


def make_fedcil(**options):
    gan = make_gan()
    return fedcil_client.FedCIL(model=gan, classes=4, generator=torch.Generator().manual_seed(0),
                         steps=1, **options)  # fmt: skip


def batch(*labels):
    return Batch(torch.randn(len(labels), 1, 8, 8), torch.tensor(labels), 0)


def end_task(learner):
    """What happens at the end of a task, in its order: a last round is before the next begins."""
    learner.end_task()
    learner.after_round(learner.model.state_dict())
    learner.receives(learner.model.state_dict(), {})


def test_what_is_sent_in_the_last_round_is_of_the_task_that_ends():
    learner = make_fedcil()
    learner.learn(batch(0, 1, 0), torch.tensor([0, 1]))
    learner.end_task()
    sent = learner.sends()
    assert (sent["now"].tolist(), sent["past"].tolist()) == ([0, 1], [])
    learner.receives(learner.model.state_dict(), {})
    learner.learn(batch(2, 3, 2), torch.tensor([2, 3]))
    first = {name: value.clone() for name, value in learner._last.state_dict().items()}
    learner.end_task()
    sent = learner.sends()
    assert (sent["now"].tolist(), sent["past"].tolist()) == ([2, 3], [0, 1])
    assert torch.equal(sent["last.linear.weight"], first["linear.weight"])
    learner.receives(learner.model.state_dict(), {})
    assert learner.sends()["past"].tolist() == [0, 1, 2, 3]


def test_replayed_images_are_of_past_classes_only():
    learner = make_fedcil()
    learner.learn(batch(0, 1, 0), torch.tensor([0, 1]))
    end_task(learner)
    asked = []
    make = learner.model.make

    def watched(noise, y, generator=None):
        asked.append((generator is learner._last, set(y.tolist())))
        return make(noise, y, generator)

    learner.model.make = watched
    for _ in range(5):
        learner.learn(batch(2, 3, 2), torch.tensor([2, 3]))
    replayed = [classes for of_last, classes in asked if of_last]
    others = [classes for of_last, classes in asked if not of_last]
    assert len(replayed) == 5
    assert set().union(*replayed) == {0, 1}
    assert set().union(*others) == {0, 1, 2, 3}


def test_the_last_generator_does_not_learn_on():
    learner = make_fedcil()
    learner.learn(batch(0, 1, 0), torch.tensor([0, 1]))
    end_task(learner)
    before = copy.deepcopy(learner._last.state_dict())
    learner.learn(batch(2, 3, 2), torch.tensor([2, 3]))
    assert_same(learner._last.state_dict(), before)
    changed = learner.model.generator.state_dict()["linear.weight"]
    assert not torch.equal(changed, before["linear.weight"])


@pytest.mark.parametrize("consistency", [0.0, 1.0])
def test_consistency_begins_after_a_round_of_the_task(consistency):
    learner = make_fedcil(consistency=consistency)
    asked = []
    inconsistency = learner._inconsistency
    learner._inconsistency = lambda *parts: (asked.append(1), inconsistency(*parts))[1]
    learner.learn(batch(0, 1), torch.tensor([0, 1]))
    assert not asked
    learner.after_round(learner.model.state_dict())
    learner.learn(batch(0, 1), torch.tensor([0, 1]))
    assert len(asked) == (1 if consistency else 0)
    end_task(learner)  # the last round of a task does not count for the next
    learner.learn(batch(2, 3), torch.tensor([2, 3]))
    assert len(asked) == (1 if consistency else 0)


def test_inconsistency_is_the_sum_of_its_three_terms():
    learner = make_fedcil()
    gan = learner.model
    y, c = torch.tensor([0, 1]), torch.tensor([2, 3])
    logits, made = torch.randn(2, 4), torch.randn(2, 4)
    inputs = copy.deepcopy(learner._inputs)
    inputs.random = torch.Generator()
    inputs.random.set_state(learner._inputs.random.get_state())
    found = learner._inconsistency(logits, y, made, c)
    of_server = gan(gan.make(inputs.noise(4), torch.cat([y, c]), learner._server)).softmax(1)

    def kl(p, q):
        return (p * (p / q).log()).sum(1).mean()

    expected = (
        kl(of_server[:2], logits.softmax(1))
        + kl(of_server[2:], made.softmax(1))
        - of_server[2:][[0, 1], c].log().mean()
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_server_draws_every_class_equally_often():
    labels = torch.tensor([0] * 90 + [1] * 10)
    pool = fedcil_server.Pool(labels.float(), labels)
    random = torch.Generator().manual_seed(0)
    drawn = torch.cat([pool.draw(random)[1] for _ in range(100)])
    assert drawn.float().mean().item() == pytest.approx(0.5, abs=0.03)


def test_images_are_padded_and_cut_in_black():
    gan = ACGAN((1, 28, 28), 2, mean=(0.5,), std=(0.25,), channels=1)
    padded = gan._padded(torch.ones(1, 1, 28, 28))
    assert padded.shape == (1, 1, 32, 32)
    assert padded[0, 0, 0, 0].item() == pytest.approx(-2)  # black: (0 − 0.5) / 0.25
    assert padded[0, 0, 2:30, 2:30].unique().tolist() == [1.0]
    made = gan.make(torch.randn(2, 102), torch.tensor([0, 1]))
    assert made.shape == (2, 1, 28, 28)
    assert made.min() >= -2
    assert made.max() <= 2


def test_dropout_draws_from_nobody_else_s_generator():
    critic = Critic(1, 1).train()
    x, state = torch.randn(4, 1, 32, 32), torch.get_rng_state()
    found = []
    for seed in (1, 1, 2):
        critic.dropout.seed(seed)
        found.append(critic(x))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert torch.equal(torch.get_rng_state(), state)
    dropped = torch.nn.functional.relu(critic.dropout(torch.ones(10_000)))
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)
    assert sorted(dropped.unique().tolist()) == [0, 2]


# Whole runs


@BOTH
def test_a_run_that_stops_anywhere_ends_like_one_that_did_not(tmp_path, method):
    data = make_images(classes=6)
    made = make_settings({**TINY, "tasks": 3, "method": method, "checkpoint_every": 4})
    for _ in Run(made, data, tmp_path / "whole"):
        pass
    for stop_after in (3, 14, 22):
        folder = tmp_path / f"broken {stop_after}"
        for n, _ in enumerate(Run(made, data, folder), 1):
            if n == stop_after:
                break
        ofcl.resume(folder, dataset=data)
        for one, other in zip(whole(tmp_path / "whole"), whole(folder), strict=True):
            assert_same(one, other)


@BOTH
def test_a_task_ends_for_all_and_what_is_handed_out_is_counted(tmp_path, method, images):
    run = Run(make_settings({**TINY, "method": method}), images, tmp_path / "run")
    rng = torch.get_rng_state()
    for _ in run:
        pass
    assert torch.equal(torch.get_rng_state(), rng)
    (ended,) = [event for event in run.events if isinstance(event, TaskEnded)]
    rounds = [event for event in run.events if isinstance(event, Round)]
    result = run.result()
    assert ended.task == 1
    assert (ended.bytes_received > 0) == (method == "mfcl")
    assert result.bytes_received == ended.bytes_received + sum(r.bytes_received for r in rounds)
    # FedCIL's clients send their last generator too, once there is one.
    first, last = rounds[0], rounds[-1]
    assert (last.bytes_sent > first.bytes_sent * 1.2) == (method == "fedcil")
    # MFCL's generator does not learn after the last task.
    wanted = {"task-1.png"} if method == "mfcl" else {"task-1.png", "task-2.png"}
    assert {p.name for p in (tmp_path / "run" / "pictures").iterdir()} == wanted


@BOTH
def test_ctrl_c_at_any_event_loses_none(tmp_path, images, method):
    made = make_settings({**TINY, "method": method, "limit": 2, "burn_in": 0})
    one = Run(made, images, tmp_path / "whole")
    for _ in one:
        pass
    for n in range(0, len(one.events) - 1):
        run = Run(made, images, tmp_path / str(n))
        with pytest.raises(Interrupted):
            for k, _ in enumerate(run):
                if k == n:
                    signal.raise_signal(signal.SIGINT)
        resumed = Run.resume(tmp_path / str(n), images)
        for _ in resumed:
            pass
        assert resumed.events == one.events
        assert resumed.result().bytes_received == one.result().bytes_received
        pictures = [sorted(p.name for p in (tmp_path / name / "pictures").iterdir())
                    for name in ("whole", str(n))]  # fmt: skip
        assert pictures[0] == pictures[1]


def test_the_teacher_is_the_global_model_also_where_clients_take_only_a_share(images):
    run = Run(make_settings({**TINY, "method": "mfcl", "mixing": 0.5}), images)
    for event in run:
        if isinstance(event, TaskEnded):
            break
    for client in run.clients:
        teacher = client.learner._teacher.model.state_dict()
        assert all(torch.equal(teacher[name], v) for name, v in run.server.model.items())


@BOTH
def test_a_task_that_is_empty_for_everybody(method):
    data = make_images(classes=3, train=12)
    rows = torch.cat([(data.y_train != 1).nonzero()[:, 0], (data.y_train == 1).nonzero()[:1, 0]])
    few = replace(data, x_train=data.x_train[rows], y_train=data.y_train[rows])
    result = ofcl.run(few, **{**TINY, "tasks": 3, "method": method, "validation": 0.1})
    assert result.A is not None


def test_pictures_of_any_number_of_channels():
    for channels in (1, 2, 3, 4):
        assert grid({"a": torch.rand(2, channels, 8, 8), "b": torch.rand(0, channels, 8, 8)})


@BOTH
def test_clients_of_different_speed_wait_for_each_other(method):
    data = make_images(classes=4, train=30)
    values = {**TINY, "method": method, "split": "dirichlet", "alpha": 0.5, "clients": 3}
    run = Run(make_settings(values), data)
    ended = 0
    for event in run:
        if isinstance(event, TaskEnded):
            ended += 1
            assert {client.task for client in run.clients} == {ended}
    assert ended == 1


@BOTH
@pytest.mark.parametrize("aggregation", ["weighted", "fedprox"])
def test_other_averaging(images, method, aggregation):
    result = ofcl.run(images, **{**TINY, "method": method, "aggregation": aggregation})
    assert 0 <= result.A <= 100


@BOTH
@pytest.mark.parametrize(
    ("data", "values", "problem"),
    [
        (make_blobs(), {}, "tailored to them; 'blobs' has vectors"),
        (make_images(side=10), {}, "10 × 10"),
        (make_images(), {"batchnorm": "local"}, "needs the averaged BatchNorm statistics"),
        (make_images(), {"protocol": "published"}, r"\(protocol 'published'\) does not give"),
        (make_images(), {"stagger": 3}, "stagger cannot be used"),
        (make_images(), {"loss": "ace"}, "loss is for methods with a memory"),
        (make_images(), {"clients": 1}, "needs rounds"),
    ],
    ids=["vectors", "side", "local", "published", "stagger", "loss", "alone"],
)
def test_what_cannot_be_done_is_refused(method, data, values, problem):
    if data.kind == "image" and data.shape[1] == 10 and method == "fedcil":
        data, problem = make_images(side=40), "at most 32 × 32"
    with pytest.raises(OfclError, match=problem):
        ofcl.run(data, **{**TINY, "model": "auto", "method": method, **values})


def test_streams_and_the_acgan_alone_are_refused(images):
    with pytest.raises(OfclError, match="needs tasks that end for all clients"):
        ofcl.run(streams=[[([1.0], "a")]], method="mfcl")
    with pytest.raises(OfclError, match="the model acgan is for the method fedcil"):
        ofcl.run(images, **{**TINY, "method": "er", "model": "acgan"})
