"""A party's data by name: a dataset that it learns task by task, or a stream as it comes.

A dataset or stream makes the client of a run when the run's terms are known. The server decides
which class each label is (`Vocabulary`).
"""

from __future__ import annotations

from collections.abc import Callable

from ofcl.data.live.feeds import STDIN, WATCH
from ofcl.errors import OfclError
from ofcl.federation.party_side.own_dataset import OwnDataset
from ofcl.federation.party_side.own_source import Source
from ofcl.federation.party_side.own_stream import OwnStream
from ofcl.settings.rules import AT_PARTY
from ofcl.state import State


def open_source(values: State, share: bool, tell: Callable[[str], None]) -> Source:
    """Opens the dataset or stream that a party has named.

    Args:
        values: The party's own settings; `dataset` is a dataset's name or path, or a stream.
        share: Whether the party learns only the share of the dataset that `ofcl run` would deal to
            the client of its number, to try things out.
        tell: Is given each line of the party's log.

    Raises:
        OfclError: If a value is not the party's to decide, or the data cannot be read.
    """
    if odd := [name for name in values if name not in AT_PARTY]:
        raise OfclError(f"{odd[0]} is decided for all parties, by the settings of the run")
    name = str(values.get("dataset", ""))
    if name == STDIN or name.startswith(WATCH):
        if share:
            raise OfclError("--share is for a dataset that all parties have; a stream is one's own")
        rest = {key: value for key, value in values.items() if key != "dataset"}
        return OwnStream({**rest, "streams": (name,)}, tell)
    return OwnDataset(values, share, tell)
