"""What the server does with the parties' answers: the gate, sums, cross tests, a spoilt model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ofcl.assembly.chosen_method import chosen_method
from ofcl.assembly.make_client import fewest_in_sum, needs_class_counts
from ofcl.assembly.make_learner import build_model
from ofcl.compression.differences import checksum
from ofcl.data.dataset import Dataset
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.engines.cross_test import CrossTest
from ofcl.engines.gate import Gate
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.terms import MOST_LABELS
from ofcl.secure_sum.server_sum import ServerSum
from ofcl.server import Server
from ofcl.settings.schema import Settings
from ofcl.update import travelling

MOST_TASKS = 10_000  # tasks that a stream may have
MOST_NEW_LABELS = 1000  # labels that one answer may bring


def make_gate(settings: Settings, dataset: Dataset, vocabulary: Vocabulary) -> Gate:
    """Makes the gate that checks every answer of a party.

    Args:
        settings: The settings of the run, resolved.
        dataset: A dataset of the form of the parties' samples.
        vocabulary: The labels that are known, also those that come later.
    """
    statistics = settings.batchnorm == "average"
    return Gate(
        travelling(build_model(settings, dataset), statistics),
        classes=lambda: len(vocabulary.labels),
        batch_size=settings.batch_size,
        most_labels=MOST_NEW_LABELS,
        most_brought=MOST_LABELS,
        stretch=settings.burn_in + settings.q,
        most_tasks=MOST_TASKS if settings.streams else settings.tasks,
        class_counts=needs_class_counts(settings),
        extras=chosen_method(settings).server_part is not None,
        class_lists=chosen_method(settings).generative is not None,
        most_remembered=settings.memory,
        masked=settings.secure_aggregation,
        coded=settings.compress != "none",
    )


def make_summing(
    settings: Settings,
    dataset: Dataset,
    vocabulary: Vocabulary,
    run: str,
    parties: Sequence[str],
    tell: Callable[[str], None],
) -> ServerSum | None:
    """Makes the server's side of secure sums; None: the run has none.

    Args:
        settings: The settings of the run, resolved.
        dataset: A dataset of the form of the parties' samples.
        vocabulary: The labels that are known, also those that come later.
        run: The name of the run.
        parties: The names of the parties.
        tell: Is given each line for the user.
    """
    if not settings.secure_aggregation:
        return None
    return ServerSum(
        run,
        travelling(build_model(settings, dataset), settings.batchnorm == "average"),
        parties,
        classes=lambda: len(vocabulary.labels),
        seed=settings.seed,
        fewest=fewest_in_sum(settings),
        checksum=checksum if settings.compress != "none" else None,
        tell=tell,
    )


def make_cross_test(
    settings: Settings,
    courier: Courier,
    gate: Gate,
    parties: Sequence[str],
    tell: Callable[[str], None],
) -> CrossTest | None:
    """Makes the server's side of cross-site validation; None: the run has none.

    Args:
        settings: The settings of the run, resolved.
        courier: Asks the parties.
        gate: Checks the models that they hand over.
        parties: The names of the parties.
        tell: Is given each line for the user.
    """
    if not settings.cross_site:
        return None
    return CrossTest(parties, courier.insist, gate.check_model, tell)


def make_watch(
    server: Server, courier: Courier, tell: Callable[[str], None], *, back: bool
) -> Callable[[Sequence[float]], None]:
    """Makes the function that looks at every exchange, and goes back if the model is spoilt.

    Args:
        server: The server with the global model and the earlier ones.
        courier: Knows which parties have failed.
        tell: Is given each line for the user.
        back: Whether to go back at the first exchange, whatever the parties say.
    """
    wanted = back

    def watch(losses: Sequence[float]) -> None:
        nonlocal wanted
        failed = not losses and courier.most_failed
        spoilt = server.earlier is not None and server.earlier.spoilt(losses, failed)
        if not spoilt and not wanted:
            return
        wanted = False
        rounds, earlier = server.go_back(), server.earlier
        if not spoilt or earlier is None:
            why = "as you asked"
        elif not earlier.by_failures:
            why = "as parties lose with it"
        elif earlier.acquitted and rounds is not None:
            why = "as parties fail with earlier ones, too; their own logs say why"
        else:
            why = "as parties fail with it"
        if rounds is None:
            tell(f"warning: no earlier model is kept to which to go back, {why}")
        else:
            tell(f"the global model is that of round {rounds} again, {why}")

    return watch
