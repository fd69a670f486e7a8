"""Measurements of mini-batches on their way from a device to events."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ofcl.client import Outcome
from ofcl.compute.devices import Transfer
from ofcl.errors import OfclError
from ofcl.events import Event, Learned


class Outcomes:
    """Outcomes of several mini-batches, fetched from the GPU in one transfer.

    The constructor starts the transfer; only `events` waits for it.

    Args:
        outcomes: The outcomes of mini-batches, in the order of their events.
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self._outcomes = outcomes
        self._transfer = Transfer(torch.stack([outcome.measurement for outcome in outcomes]))

    def events(self) -> list[Event]:
        """Waits for the transfer, and makes an event of every outcome.

        Raises:
            OfclError: If the loss or a parameter of a client is not finite.
        """
        rows = self._transfer.numpy().tolist()
        return [_event(outcome, *row) for outcome, row in zip(self._outcomes, rows, strict=True)]


def _event(outcome: Outcome, loss: float, correct: float, finite: float) -> Learned:
    """Makes the event of one outcome; raises an error if its numbers are not finite.

    Args:
        outcome: The mini-batch that a client has learned.
        loss: The mean loss of its samples.
        correct: The number of right predictions.
        finite: 1 if all losses and parameters are finite; else 0.
    """
    client, task, batch, samples, _ = outcome
    if not finite:
        raise OfclError(
            f"the loss of client {client} is not finite (task {task}, mini-batch {batch}); "
            "lower the learning rate, or look at that part of its data"
        )
    return Learned(client, task, 1, samples, loss * samples, int(correct))
