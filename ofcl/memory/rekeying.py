"""Which keys are computed when a mini-batch is offered to a memory (`Rekey`).

Rows are those of the memory's `Table`. A class is crowded when it has more rows than its share of
the room, so that some of them have to go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ofcl.memory.policy import Rekey
from ofcl.memory.table import Table


def rows_to_key(
    table: Table,
    rekey: Rekey,
    crowded: Sequence[np.ndarray],
    new: np.ndarray,
    *,
    together: bool,
) -> list[np.ndarray]:
    """Returns the rows whose keys are to be computed, in groups that are computed at once.

    Args:
        table: The keys so far, and whether a round has passed since they were computed.
        rekey: When the policy computes keys anew.
        crowded: The rows of each crowded class.
        new: The rows of the mini-batch on offer.
        together: Whether all crowded classes are one group, or each is its own.
    """
    if rekey == "at-risk":
        return [np.concatenate([rows_at_risk(table, crowded, (len(new) + 1) // 2), new])]
    match rekey:
        case "every-batch":
            groups = list(crowded)
        case "every-round":
            groups = [rows[np.isnan(table.key[rows]) | table.stale[rows]] for rows in crowded]
        case "never":
            groups = [rows[np.isnan(table.key[rows])] for rows in crowded]
    if together and groups:
        groups = [np.sort(np.concatenate(groups))]
    return [rows for rows in groups if len(rows)]


def rows_at_risk(table: Table, crowded: Sequence[np.ndarray], most: int) -> np.ndarray:
    """Returns at most so many rows with a key from before a round: those that would go first.

    The largest key of each class, then the second largest of each, and so on.
    """
    none = np.empty(0, dtype=np.int64)
    stale = [rows[table.stale[rows]] for rows in crowded]
    largest = [rows[np.argsort(-table.key[rows], kind="stable")][:most] for rows in stale]
    rows = np.concatenate([none, *largest])
    ranks = np.concatenate([none, *(np.arange(len(of_class)) for of_class in largest)])
    return rows[np.lexsort((-table.key[rows], ranks))][:most]
