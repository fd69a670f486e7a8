"""The vocabulary of a federation: the labels of all parties, kept by the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ofcl.data.live.vocabulary import Vocabulary


class LabelSpace(Vocabulary):
    """The vocabulary of a federation; it warns of labels that look like one another.

    Args:
        labels: The labels that are known at the beginning.
        tell: Is given a line for two labels that differ in case or spaces alone.

    >>> labels = LabelSpace(("Cat",), print)
    >>> labels.place("c at")
    the labels 'Cat' and 'c at' differ in case or spaces alone; they are learned as two classes
    1
    """

    def __init__(self, labels: Sequence[str], tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell
        self._spelled: dict[str, str] = {}
        for label in labels:
            self.place(label)

    def place(self, label: str) -> int:
        """Gives the place of a label, which is its class; a new label gets the next free place.

        Args:
            label: The label, as a party has named it.
        """
        if label not in self:
            plain = "".join(label.casefold().split())
            if plain in self._spelled:
                self._tell(
                    f"the labels '{self._spelled[plain]}' and '{label}' differ in case or spaces "
                    "alone; they are learned as two classes"
                )
            self._spelled.setdefault(plain, label)
        return super().place(label)
