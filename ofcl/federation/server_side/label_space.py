"""The vocabulary of a federation: the labels of all parties, kept by the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from ofcl.data.live.vocabulary import Vocabulary
from ofcl.federation.terms import plain_spelling


class LabelSpace(Vocabulary):
    """The vocabulary of a federation; it warns of labels that look like one another.

    Args:
        labels: The labels that are known at the beginning.
        tell: Is given a line for two labels that differ in case or spaces alone.
        aliases: Labels by other spellings of them, which become no classes of their own.

    >>> labels = LabelSpace(("Cat",), print)
    >>> labels.place("c at")
    the labels 'Cat' and 'c at' differ in case or spaces alone; they are learned as two classes. To
    join them, write "c at" = "Cat" into aliases.toml of the federation, before a run begins
    1
    """

    def __init__(
        self,
        labels: Sequence[str],
        tell: Callable[[str], None],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(aliases=aliases)
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
            plain = plain_spelling(label)
            if plain in self._spelled:
                first = self._spelled[plain]
                self._tell(
                    f"the labels '{first}' and '{label}' differ in case or spaces alone; they are "
                    f"learned as two classes. To join them, write {json.dumps(label)} = "
                    f"{json.dumps(first)} into aliases.toml of the federation, before a run begins"
                )
            self._spelled.setdefault(plain, label)
        return super().place(label)
