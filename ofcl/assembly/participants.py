"""Who takes part in a run: the server, the clients that learn here, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ofcl.client import Client
from ofcl.data.dataset import Dataset
from ofcl.data.live.form import Pattern
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.server import Server
from ofcl.settings.schema import Settings
from ofcl.state import State


@dataclass
class Participants:
    """The clients and the server of a run, and what is known of it before it starts.

    Args:
        settings: The run's settings, resolved.
        clients: The clients that learn in this process; those elsewhere are made there.
        server: The server with the initial model.
        vocabulary: The labels, each with a place.
        fitted: What was chosen for the data, in words; empty: nothing was.
        warnings: What can be done but is hardly meant, in words.
        batches: How many mini-batches will be learned in all; None: nobody knows.
        pattern: What the samples of streams look like.
        tested: Whether streams have samples to test on.
        form: Kind of the samples, and how images were normalised, for the settings file.
        fingerprint: Tells the run's dataset from others; empty: there is none here.
        agreed: What was agreed with the parties of a federation, for a checkpoint.
    """

    settings: Settings
    clients: list[Client]
    server: Server
    vocabulary: Vocabulary
    warnings: list[str]
    batches: int | None
    pattern: Pattern = field(default_factory=Pattern)
    tested: bool = False
    form: State = field(default_factory=dict)
    fingerprint: str = ""
    agreed: State = field(default_factory=dict)
    fitted: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of their places."""
        return self.vocabulary.labels

    @property
    def first_labels(self) -> tuple[str, ...]:
        """The labels that were known when the run began."""
        return self.labels[: self.agreed.get("base")]

    def state(self) -> State:
        """Gives what streams and parties have shown so far, for a checkpoint."""
        return {
            "labels": list(self.labels),
            "kind": self.pattern.kind,
            "shape": list(self.pattern.shape),
            "tested": self.tested,
            **self.agreed,
        }


def form_of(dataset: Dataset) -> State:
    """Describes samples for those who look at them as a model takes them."""
    return {"kind": dataset.kind, "mean": list(dataset.mean), "std": list(dataset.std)}
