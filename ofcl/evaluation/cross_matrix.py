"""The matrix of cross-site validation: whose model, on whose test data, how good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ofcl.evaluation.metrics import mean


class CrossMatrix:
    """The accuracies of models on the test data of several clients, in percent.

    A model is named by the number of the client whose own it is; None stands for the global one.

    Args:
        rows: The rows of `Result.cross_site`.

    Attributes:
        models: The models, the global one first.
        clients: The numbers of the clients on whose data any model was tested.
        samples: For the number of each of these clients, its test samples.

    >>> rows = [{"model": None, "clients": [0, 1], "accuracy": [90.0, 80.0], "samples": [10, 20]},
    ...         {"model": 0, "clients": [0, 1], "accuracy": [100.0, 60.0], "samples": [10, 20]},
    ...         {"model": 1, "clients": [0, 1], "accuracy": [50.0, 95.0], "samples": [10, 20]}]
    >>> matrix = CrossMatrix(rows)
    >>> matrix.accuracy(0, 1), matrix.elsewhere(0), matrix.of_others(0)
    (60.0, 60.0, 50.0)
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.models: list[int | None] = [row["model"] for row in rows]
        self.samples: dict[int, int] = {}
        self._cells: dict[tuple[int | None, int], float | None] = {}
        for row in rows:
            for client, accuracy, samples in zip(
                row["clients"], row["accuracy"], row["samples"], strict=True
            ):
                self._cells[row["model"], client] = accuracy
                self.samples[client] = samples
        self.clients = sorted(self.samples)

    def accuracy(self, model: int | None, client: int) -> float | None:
        """Gives the accuracy of a model on a client's data; None: it was not tested there.

        Args:
            model: The model.
            client: The number of the client whose data they are.
        """
        return self._cells.get((model, client))

    def elsewhere(self, model: int | None) -> float | None:
        """Computes the mean accuracy of a model over the data of all other clients.

        Args:
            model: The model.
        """
        return mean(self.accuracy(model, client) for client in self.clients if client != model)

    def of_others(self, client: int) -> float | None:
        """Computes the mean accuracy of all other clients' own models on a client's data.

        Args:
            client: The number of the client.
        """
        others = [model for model in self.models if model not in (None, client)]
        return mean(self.accuracy(model, client) for model in others)
