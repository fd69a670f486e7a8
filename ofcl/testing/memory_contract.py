"""The contracts of a memory, and of the policy that chooses what stays in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from ofcl.data.stream import Batch
from ofcl.memory.memory import Memory
from ofcl.memory.policy import Policy, Rekey
from ofcl.methods.parts import Keep, PolicyParts
from ofcl.models.mlp import MLP
from ofcl.seeds import generator, private
from ofcl.testing.contract import find_difference, require, save_and_read, untouched_generators
from ofcl.uncertainty.perturbations import NoisyCopies
from ofcl.uncertainty.scorer import Scorer
from ofcl.uncertainty.scores import find_score

SIZE = 12
CLASSES, FEATURES = 5, 3
BATCHES, BATCHES_BETWEEN_ROUNDS = 18, 4

CHOICES: tuple[tuple[Rekey, Keep, Literal["raw", "rank"]], ...] = (
    ("never", "bottom", "raw"), ("at-risk", "top", "raw"), ("every-round", "bottom", "raw"),
    ("every-batch", "top", "raw"), ("on-arrival", "weighted", "raw"), ("at-risk", "spread", "rank"),
    ("at-risk", "diverse", "raw"),
)  # fmt: skip
"""The values of three settings with which a policy is made: `rescore`, `keep`, `score_scale`."""

MakePolicy = Callable[[PolicyParts], Policy]


def check_policy(make_policy: MakePolicy) -> None:
    """Checks that a memory with a policy keeps its promises, with several values of the settings.

    Keys are finite numbers, one for each sample; random keys come from the given generator. The
    memory keeps the promises of `check_memory`.

    Args:
        make_policy: Makes the policy of a client, as in `ofcl.methods.Method`.

    Raises:
        ContractBroken: If one of these promises is not kept.
    """
    for rescore, keep, scale in CHOICES:
        _check_policy_with(make_policy, rescore, keep, scale)


def _check_policy_with(
    make_policy: MakePolicy, rescore: Rekey, keep: Keep, scale: Literal["raw", "rank"]
) -> None:
    """Checks a policy that is made with these values of the settings.

    Args:
        make_policy: Makes the policy of a client.
        rescore: When remembered samples are scored again.
        keep: Which samples of a class stay.
        scale: Whether scores are compared as they are, or by their rank.
    """

    def make_memory() -> Memory:
        """Makes an empty memory with the policy."""
        draws = generator(0, "memory of a policy")
        model = _make_model()
        policy = make_policy(
            PolicyParts(draws, _make_scorer, keep, rescore, scale=scale, model=model)
        )
        return Memory(SIZE, policy, draws)

    with untouched_generators("a policy"):
        x = torch.randn(4, FEATURES, generator=generator(0, "keys of a policy"))
        keys = make_memory().policy.keys(x, torch.arange(4) % CLASSES)
    require(
        keys.shape == (4,) and keys.is_floating_point() and bool(keys.isfinite().all()),
        f"a policy gives each sample a finite key: of 4 samples came {keys.tolist()}",
    )
    check_memory(make_memory)


def _make_model() -> MLP:
    """Makes a small random model, the same each time."""
    with private(0, "model of a policy"):
        return MLP(FEATURES, 4, CLASSES)


def _make_scorer(score: str) -> Scorer:
    """Makes a scorer with a small random model, by the name of a score."""
    return Scorer(
        _make_model(),
        find_score(score, "scores"),
        as_of="after-round",
        perturb=NoisyCopies(copies=3),
        generator=generator(0, "scorer of a policy"),
    )


def check_memory(make: Callable[[], Memory]) -> None:
    """Checks that a memory never has too many samples, none twice, and none that did not come.

    With the rule `even`, the memory fills up and, if its policy is balanced, classes are as even as
    the stream allows. A memory that loads the saved state of another goes on bit for bit like it.

    Args:
        make: Makes an empty memory, the same each time; it has room for at least five samples, and
            never forgets by age.

    Raises:
        ContractBroken: If one of these promises is not kept.
    """
    batches = _make_batches()
    with untouched_generators("a memory"):
        memory = make()
        arrived: list[int] = []  # the classes of the samples so far
        for number, batch in enumerate(batches):
            _offer(memory, number, batch)
            arrived += batch.y.tolist()
            _check_contents(memory, arrived)
            if memory.rule == "even":
                _check_full(memory, arrived)
        for middle in (1, BATCHES // 2):
            _check_saved(make, batches, middle)


def _make_batches() -> list[Batch]:
    """Makes mini-batches in which the first number of each sample is its place in the stream.

    They have two tasks, rare classes, and a class of which only one sample comes.
    """
    draw, batches, arrived = generator(0, "stream for a memory"), [], 0
    for number in range(BATCHES):
        n, task = 1 + number % 5, number * 2 // BATCHES  # two tasks
        rare = torch.rand(n, generator=draw) < 0.2  # the second class of each task
        y = torch.where(rare, 1, 0) + 2 * task
        if number == BATCHES - 3:
            y[0] = CLASSES - 1  # a single sample of the last class
        places = torch.arange(arrived, arrived + n, dtype=torch.float)
        others = torch.randn(n, FEATURES - 1, generator=draw)
        batches.append(Batch(torch.cat([places[:, None], others], 1), y, task))
        arrived += n
    return batches


def _offer(memory: Memory, number: int, batch: Batch) -> None:
    """Offers a mini-batch to a memory; before every fourth one, a round passes.

    Args:
        memory: The memory.
        number: The number of the mini-batch, from 0.
        batch: The mini-batch.
    """
    if number % BATCHES_BETWEEN_ROUNDS == BATCHES_BETWEEN_ROUNDS - 1:
        memory.before_round()
        memory.after_round()
    memory.update(*batch, sorted(set(batch.y.tolist())))


def _check_contents(memory: Memory, stream: list[int]) -> None:
    """Requires that a memory is not too full, and has only samples of the stream, none twice.

    Args:
        memory: The memory.
        stream: The class of each sample that was offered, in order.
    """
    samples = memory.samples
    ids = samples.id.tolist()
    require(
        len(memory) <= memory.size and len(ids) == len(memory),
        f"a memory for {memory.size} samples never has more; it has {len(memory)}, and describes "
        f"{len(ids)}",
    )
    require(len(set(ids)) == len(ids), f"no sample is in a memory twice; these are there: {ids}")
    require(
        all(0 <= number < len(stream) for number in ids),
        f"a memory has nothing that was not offered: of {len(stream)} samples it has {ids}",
    )
    numbers = memory.x[:, 0].long().tolist()
    classes = [stream[number] for number in ids]
    require(
        numbers == ids and samples.y.tolist() == classes,
        "samples are in a memory as they were offered, in the order of `samples`: arrivals "
        f"{ids} of classes {classes} are there as {numbers} of classes {samples.y.tolist()}",
    )


def _check_full(memory: Memory, stream: list[int]) -> None:
    """Requires that a memory is as full as it can be and, if balanced, even over the classes.

    Args:
        memory: The memory.
        stream: The class of each sample that was offered, in order.
    """
    room = min(memory.size, len(stream))
    require(
        len(memory) == room,
        f"after {len(stream)} samples, {room} are in a memory for {memory.size}; {len(memory)} are",
    )
    if not memory.policy.balanced:
        return
    arrived, kept = Counter(stream), Counter(memory.samples.y.tolist())
    most = max(kept.values())
    for c, n in arrived.items():
        # A class has less than the others only if a larger share came too late for it.
        fair = min(n, memory.size // len(arrived))
        require(
            kept[c] >= fair or kept[c] >= most - 1,
            "a balanced memory keeps as many of each class as the stream allows: of "
            f"{dict(arrived)} it has {dict(kept)}",
        )


def _check_saved(make: Callable[[], Memory], batches: Sequence[Batch], middle: int) -> None:
    """Requires that a memory that has loaded another's state goes on like it.

    Args:
        make: Makes an empty memory.
        batches: The mini-batches that are offered.
        middle: After how many mini-batches the state is saved and loaded.
    """
    first, second = make(), make()
    for number, batch in enumerate(batches[:middle]):
        _offer(first, number, batch)
    second.load_state(save_and_read(first.state(), "a memory"))
    for number, batch in enumerate(batches[middle:], middle):
        drawn = [memory.draw(3, exclude_task=0, times=2) for memory in (first, second)]
        require(
            torch.equal(*drawn),
            "a memory that was put back from its state draws the same samples for replay; it "
            "drew others",
        )
        for memory in (first, second):
            _offer(memory, number, batch)
    one, other = (save_and_read(memory.state(), "a memory") for memory in (first, second))
    different = find_difference(one, other)
    require(
        different is None,
        "a memory that was put back from its state goes on bit for bit alike; at the end it "
        f"differs at {different}",
    )
