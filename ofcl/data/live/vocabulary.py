"""The vocabulary of a run: its labels, each with a place."""

from __future__ import annotations

from collections.abc import Sequence

from ofcl.errors import OfclError


class Vocabulary:
    """The labels of a run, each with a place; a new one gets the next.

    >>> words = Vocabulary()
    >>> words.place("cat"), words.place("dog"), words.place("cat")
    (0, 1, 0)
    """

    def __init__(self, labels: tuple[str, ...] = ()) -> None:
        self._places = {label: place for place, label in enumerate(labels)}

    def __contains__(self, label: str) -> bool:
        return label in self._places

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels in the order of their places."""
        return tuple(self._places)

    def place(self, label: str) -> int:
        """The place of a label."""
        return self._places.setdefault(label, len(self._places))

    def admits(self, label: str) -> bool:
        """Whether a sample of this label can be learned now."""
        return True


class AssignedVocabulary(Vocabulary):
    """A vocabulary that somebody else keeps: for labels without a place, one must be asked for.

    >>> words = AssignedVocabulary(("cat",))
    >>> words.admits("cat"), words.admits("dog"), words.requested
    (True, False, ['dog'])
    >>> words.assign(["cat", "dog"])
    >>> words.admits("dog"), words.requested
    (True, [])
    """

    def __init__(self, labels: tuple[str, ...] = ()) -> None:
        super().__init__(labels)
        self.requested: list[str] = []

    def admits(self, label: str) -> bool:
        """Whether the label has a place; if not, it is asked for."""
        if label not in self and label not in self.requested:
            self.requested.append(label)
        return label in self

    def assign(self, labels: Sequence[str]) -> None:
        """Takes over what the keeper says; labels that are here never change their places."""
        known = self.labels
        if tuple(labels[: len(known)]) != known:
            raise OfclError("the labels of this run have changed their places; start it anew")
        for label in labels:
            self.place(label)
        self.requested = [label for label in self.requested if label not in self]
