"""Who takes part in a run: the server, the clients that learn here, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ofcl.assembly.start import Start
from ofcl.assembly.step_path import StepPath
from ofcl.client import Client
from ofcl.data.dataset import Dataset
from ofcl.data.live.form import Pattern
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.data.sample_forms import SampleForm
from ofcl.events import Event
from ofcl.server import Server
from ofcl.settings.schema import Settings
from ofcl.state import State


@dataclass
class Participants:
    """The clients and the server of a run, and what is known of it before it starts.

    Args:
        settings: The run's settings, resolved.
        clients: The clients that learn in this process; empty if other processes make them.
        server: The server with the initial model.
        vocabulary: The labels; a label's place is its class.
        warnings: Lines about settings that work but are hardly meant.
        batches: How many mini-batches all clients will learn together; None: nobody knows.
        pattern: Kind and shape of the samples of streams.
        tested: Whether streams have samples to test on.
        form: Kind of the samples, and how images were normalised, for the settings file.
        sample_form: Describes how samples are read, for the model's bundle. A function, because
            streams standardise by rows that come later.
        fingerprint: A checksum of the run's dataset; empty for streams and parties.
        agreed: Facts that the server has agreed on with the parties of a federation, for a
            checkpoint; empty without parties.
        fitted: The settings that were chosen for the data, in a line; empty: none was.
        backbone: What of a pretrained model learns, in a line; empty: it is not pretrained.
        steps: How the clients compute their gradient steps; None: not known here, as parties do so
            on machines of their own.
        start: What the run goes on from; None: it begins anew.
        events: Events of earlier runs that count in this one too.
        remarks: Gives lines for the user when the run has ended.
        names: The names of the clients, for the user; empty: they have numbers alone.
    """

    settings: Settings
    clients: list[Client]
    server: Server
    vocabulary: Vocabulary
    warnings: list[str]
    batches: int | None
    sample_form: Callable[[], SampleForm]
    pattern: Pattern = field(default_factory=Pattern)
    tested: bool = False
    form: State = field(default_factory=dict)
    fingerprint: str = ""
    agreed: State = field(default_factory=dict)
    fitted: str = ""
    backbone: str = ""
    steps: StepPath | None = None
    start: Start | None = None
    events: list[Event] = field(default_factory=list)
    remarks: Callable[[], list[str]] = list
    names: Sequence[str] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels known so far, in the order of their classes."""
        return self.vocabulary.labels

    @property
    def first_labels(self) -> tuple[str, ...]:
        """The labels that were known when the run began, in the order of their classes."""
        return self.labels[: self.agreed.get("base")]

    def name_of(self, client: int) -> str:
        """Gives the name of a client, for the user.

        Args:
            client: The number of the client.
        """
        return self.names[client] if self.names else f"client {client}"

    @property
    def earlier_tasks(self) -> int:
        """The number of the tasks that were learned before this run."""
        return self.start.first_task if self.start is not None else 0

    def state(self) -> State:
        """Returns labels, form of the samples and the parties' agreement, for a checkpoint."""
        return {
            "labels": list(self.labels),
            "kind": self.pattern.kind,
            "shape": list(self.pattern.shape),
            "tested": self.tested,
            **self.agreed,
        }


def form_of(dataset: Dataset) -> State:
    """Describes how samples were prepared, so that images can be shown again as they were.

    Args:
        dataset: The dataset.

    Returns:
        Kind and shape of the samples, and mean and standard deviation of each channel.
    """
    return {
        "kind": dataset.kind,
        "shape": list(dataset.shape),
        "mean": list(dataset.mean),
        "std": list(dataset.std),
    }
