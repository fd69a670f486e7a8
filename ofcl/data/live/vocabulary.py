"""The vocabulary of a run: its labels, each with a place. The place is the number of the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ofcl.errors import OfclError


class Vocabulary:
    """The labels of a run, each with a place; a new label gets the next place.

    Args:
        labels: The labels that have a place already, in the order of their places.
        aliases: Labels by other spellings of them, which share their places.

    >>> words = Vocabulary()
    >>> words.place("cat"), words.place("dog"), words.place("cat")
    (0, 1, 0)
    >>> Vocabulary(("cat",), {"Cat": "cat"}).place("Cat")
    0
    """

    def __init__(
        self, labels: tuple[str, ...] = (), aliases: Mapping[str, str] | None = None
    ) -> None:
        self._places = {label: place for place, label in enumerate(labels)}
        self.aliases = dict(aliases or {})

    def __contains__(self, label: str) -> bool:
        return self.aliases.get(label, label) in self._places

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels in the order of their places."""
        return tuple(self._places)

    def place(self, label: str) -> int:
        """Returns the place of a label; a new label is added with the next place.

        Args:
            label: The label.
        """
        return self._places.setdefault(self.aliases.get(label, label), len(self._places))

    def admits(self, label: str) -> bool:
        """Returns True: a new label gets its place at once, so its samples can be learned now.

        Args:
            label: Not used; `AssignedVocabulary` looks at it.
        """
        return True


class AssignedVocabulary(Vocabulary):
    """A party's copy of the vocabulary, in which the server assigns the places.

    A sample of a new label cannot be learned before the server has assigned a place to it.

    Args:
        labels: The labels that have a place already, in the order of their places.
        aliases: Labels by other spellings of them.

    Attributes:
        requested: The labels for which a place is to be requested from the server.

    >>> words = AssignedVocabulary(("cat",))
    >>> words.admits("cat"), words.admits("dog"), words.requested
    (True, False, ['dog'])
    >>> words.assign(["cat", "dog"])
    >>> words.admits("dog"), words.requested
    (True, [])
    """

    def __init__(
        self, labels: tuple[str, ...] = (), aliases: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(labels, aliases)
        self.requested: list[str] = []

    def admits(self, label: str) -> bool:
        """Says whether the label has a place; if not, adds it to `requested`.

        Args:
            label: The label of a sample that is to be learned.
        """
        if label not in self and label not in self.requested:
            self.requested.append(label)
        return label in self

    def assign(self, labels: Sequence[str]) -> None:
        """Takes over the places that the server has assigned.

        Args:
            labels: All labels of the run, in the order of their places.

        Raises:
            OfclError: The server has another place for a label that has one here.
        """
        known = self.labels
        if tuple(labels[: len(known)]) != known:
            raise OfclError("the labels of this run have changed their places; start it anew")
        for label in labels:
            self.place(label)
        self.requested = [label for label in self.requested if label not in self]
