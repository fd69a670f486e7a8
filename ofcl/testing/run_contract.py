"""The contract of a run: promises that hold for every method, setting and dataset."""

from __future__ import annotations

import itertools
import math

from ofcl.assembly.chosen_method import chosen_method
from ofcl.evaluation.results import Result
from ofcl.events import Evaluated, Event, Learned, Round
from ofcl.experiment import Run
from ofcl.state import Tensors
from ofcl.testing.contract import require, untouched_generators


def check_run(run: Run) -> Result:
    """Runs to the end, and checks the promises of every run.

    Losses and models stay finite; every client is evaluated after each task; every mini-batch is
    learned once; rounds have enough clients; memories are never too full; the global random
    generators stay as they were.

    Args:
        run: A run that has not begun, whose clients are in this process.

    Returns:
        The result of the run.

    Raises:
        ContractBroken: If one of these promises is not kept.
    """
    evaluated: list[tuple[int, int]] = []
    batches = 0
    with untouched_generators("a run"):
        for event in run:
            _check_event(event, run.settings.min_clients)
            if isinstance(event, Evaluated):
                evaluated.append((event.client, event.task))
            elif isinstance(event, Learned):
                batches += event.batches
    if run.batches is not None:  # a dataset, of which the number of tasks is known
        tasks = itertools.product(range(run.settings.clients), range(run.settings.tasks_in_stream))
        require(
            sorted(evaluated) == list(tasks),
            "every client is evaluated once after each task; evaluations (client, task) came as "
            f"{sorted(evaluated)}",
        )
        require(
            batches == run.batches,
            f"every mini-batch is learned once: of {run.batches}, {batches} were learned",
        )
    _check_models(run)
    _check_memories(run)
    return _check_result(run)


def _check_event(event: Event, min_clients: int) -> None:
    """Requires finite losses, and rounds with enough clients that send and receive.

    Args:
        event: An event of the run.
        min_clients: The least number of clients of a round.
    """
    if isinstance(event, Learned):
        require(
            math.isfinite(event.loss) and 0 <= event.correct <= event.samples,
            f"losses are finite, and no more predictions are right than there are; {event} came",
        )
    elif isinstance(event, Round):
        require(
            len(event.clients) >= min_clients,
            f"a round has at least {min_clients} clients; {event} came",
        )
        require(
            event.bytes_sent > event.bytes_received > 0,
            "clients send their model and a few counts, and take a model of the same size; "
            f"{event} came",
        )


def _check_models(run: Run) -> None:
    """Requires that the models of server and clients are finite at the end."""
    models: dict[str, Tensors] = {"the server": run.server.model}
    for client in run.clients:
        models[f"client {client.number}"] = client.model.state_dict()
    for whose, model in models.items():
        for name, value in model.items():
            require(
                bool(value.isfinite().all()),
                f"models stay finite; '{name}' of {whose} is not at the end",
            )


def _check_memories(run: Run) -> None:
    """Requires that memories are not too full, and have no sample twice."""
    settings = run.settings
    remembers = chosen_method(settings).policy is not None
    for client in run.clients:
        memory = client.learner.memory
        require(
            (memory is not None) == remembers,
            "a method has a memory exactly if it has a policy; "
            f"policy: {remembers}, memory: {memory is not None}",
        )
        if memory is None:
            continue
        require(
            len(memory) <= settings.memory,
            f"a memory for {settings.memory} samples never has more; it has {len(memory)}",
        )
        ids = memory.samples.id.tolist()
        require(
            len(set(ids)) == len(memory),
            f"no sample is in a memory twice; these are there: {ids}",
        )


def _check_result(run: Run) -> Result:
    """Requires an accuracy from 0 to 100 percent, if the run is tested; returns the result."""
    result = run.result()
    require(
        result.A is None or 0 <= result.A <= 100,
        f"the accuracy is from 0 to 100 percent; it is {result.A}",
    )
    require(
        run.batches is None or result.A is not None,
        "a run that is tested has an accuracy; it has none",
    )
    return result
