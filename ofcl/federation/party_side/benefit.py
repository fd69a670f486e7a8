"""Does taking part help? The models of a party, compared on the party's own test data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, Literal

import numpy as np

from ofcl.evaluation.held_out import Predictions

ModelName = Literal["global", "own", "alone"]
"""The models of a party:

global: the one that all parties have learned together.
own:    the party's own, as it was after the party's last mini-batch.
alone:  one that has learned from the party's data and taken part in no round (`--local-too`).
"""

WORDS: dict[ModelName, str] = {
    "global": "global model",
    "own": "your own",
    "alone": "learned from your data alone",
}
CLEAR = 0.05  # a difference that chance makes less often than this is called clear


@dataclass(frozen=True)
class Comparison:
    """The test of a party's models at the end of a task.

    Args:
        right: For each model and each task so far, whether it predicts each test sample right.
    """

    right: Mapping[ModelName, Sequence[np.ndarray]]

    @classmethod
    def of(cls, predictions: Mapping[ModelName, Sequence[Predictions]]) -> Comparison:
        """Compares models by their predictions.

        Args:
            predictions: For each model, its predictions on each task so far.
        """
        return cls(
            {
                name: [classes == predicted for classes, predicted in of_tasks]
                for name, of_tasks in predictions.items()
            }
        )

    @property
    def samples(self) -> int:
        """The number of test samples."""
        return len(self._all("global"))

    def accuracy(self, name: ModelName) -> float:
        """Computes the share of test samples that a model predicts right, in percent.

        Args:
            name: The model.
        """
        return 100 * float(self._all(name).mean())

    def mean_over_tasks(self, name: ModelName) -> float | None:
        """Computes the mean over tasks of a model's accuracy, in percent; None: no test samples.

        Args:
            name: The model.
        """
        tasks = [float(right.mean()) for right in self.right[name] if len(right)]
        return 100 * sum(tasks) / len(tasks) if tasks else None

    def chance(self, name: ModelName) -> float:
        """Computes how often chance alone makes a model differ so much from the one alone.

        This is the sign test (McNemar's, exact) over the samples that one of the two predicts
        right and the other one wrong.

        Args:
            name: The model that is compared with `alone`.
        """
        first, alone = self._all(name), self._all("alone")
        better, worse = int((first & ~alone).sum()), int((~first & alone).sum())
        differing = better + worse
        fewer = sum(comb(differing, k) for k in range(min(better, worse) + 1))
        return min(1.0, float(2 * fewer / 2**differing))

    def in_words(self, kept: ModelName) -> list[str]:
        """Says in lines for the log how good the models are, and whether taking part helps.

        Args:
            kept: The model that the party keeps.
        """
        if not self.samples:
            return ["there are no test data here, so nobody knows how good the models are for you"]
        shown = (f"{WORDS[name]} {self.accuracy(name):.1f} %" for name in self.right)
        lines = [f"on your test data ({self.samples} samples): {', '.join(shown)}"]
        if "alone" in self.right:
            more = self.accuracy(kept) - self.accuracy("alone")
            doubt = "" if self.chance(kept) < CLEAR else "; so small a difference may be chance"
            verdict = "more" if more >= 0 else "fewer"
            lines.append(f"taking part gives you {abs(more):.1f} points {verdict}{doubt}")
        return lines

    def to_json(self, kept: ModelName) -> dict[str, Any]:
        """Returns the number of samples and the accuracies, for a file.

        Args:
            kept: The model that the party keeps.
        """
        if not self.samples:
            return {"samples": 0}
        shown: dict[str, Any] = {name: round(self.accuracy(name), 2) for name in self.right}
        if "alone" in self.right:
            shown["chance"] = round(self.chance(kept), 4)
        return {"samples": self.samples, **shown}

    def for_card(self) -> dict[str, float | None]:
        """Returns the number of samples and the accuracies, for the card of a model."""
        if not self.samples:
            return {}
        shown = {f"party_{name}": round(self.accuracy(name), 2) for name in self.right}
        return {**shown, "party_samples": self.samples}

    def _all(self, name: ModelName) -> np.ndarray:
        """Returns whether a model predicts each sample of all tasks right."""
        return np.concatenate([*self.right[name], np.empty(0, dtype=bool)])


@dataclass(frozen=True)
class OnNewSamples:
    """A comparison on the newest samples of a stream, each just before it was learned.

    Args:
        samples: How many samples there were.
        own: How many of them the party's own model, which takes part in rounds, predicted right.
        alone: How many the model of the party's data alone did.
    """

    samples: int
    own: int
    alone: int

    def in_words(self) -> str:
        """Says in a line for the log how good both are.

        >>> print(OnNewSamples(500, 400, 350).in_words().replace(": ", ":\\n"))
        on your last 500 new samples, before learning them:
        your own 80.0 %, learned from your data alone 70.0 %
        """
        own, alone = (100 * right / self.samples for right in (self.own, self.alone))
        return (
            f"on your last {self.samples} new samples, before learning them: {WORDS['own']} "
            f"{own:.1f} %, {WORDS['alone']} {alone:.1f} %"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the number of samples and the accuracies in percent, for a file."""
        own, alone = (round(100 * right / self.samples, 2) for right in (self.own, self.alone))
        return {"samples": self.samples, "own": own, "alone": alone}
