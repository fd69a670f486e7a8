"""Which keys are computed when a mini-batch is offered to a memory (`Rekey`).

Rows are those of the memory's `Table`. A class is crowded when it has more rows than its share of
the room, so that some of them have to go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ofcl.memory.choice import Priority, keep_key
from ofcl.memory.policy import Rekey
from ofcl.memory.table import Table


def rows_to_key(
    table: Table,
    rekey: Rekey,
    crowded: Sequence[np.ndarray],
    new: np.ndarray,
    *,
    together: bool,
    priority: Priority = keep_key,
) -> list[np.ndarray]:
    """Returns the rows whose keys are to be computed, in groups that are computed at once.

    Args:
        table: The keys so far, and whether a round has passed since they were computed.
        rekey: When the policy computes keys anew.
        crowded: The rows of each crowded class.
        new: The rows of the mini-batch on offer.
        together: Whether all crowded classes are one group, or each is its own.
        priority: Of the policy's choice: who would go first.
    """
    if rekey == "at-risk":
        at_risk = rows_at_risk(table, crowded, (len(new) + 1) // 2, priority)
        return [np.concatenate([at_risk, new])]
    match rekey:
        case "on-arrival":
            return [new]
        case "every-batch":
            groups = list(crowded)
        case "every-round":
            groups = [rows[np.isnan(table.key[rows]) | table.stale[rows]] for rows in crowded]
        case "never":
            groups = [rows[np.isnan(table.key[rows])] for rows in crowded]
    if together and groups:
        groups = [np.sort(np.concatenate(groups))]
    return [rows for rows in groups if len(rows)]


def rows_at_risk(
    table: Table, crowded: Sequence[np.ndarray], most: int, priority: Priority = keep_key
) -> np.ndarray:
    """Returns at most so many rows with a key from before a round: those that would go first.

    The largest priority of each class, then the second largest of each, and so on.
    """

    def negative(rows: np.ndarray) -> np.ndarray:
        return -priority(table.key[rows], table.id[rows])

    none = np.empty(0, dtype=np.int64)
    stale = [rows[table.stale[rows]] for rows in crowded]
    largest = [rows[np.argsort(negative(rows), kind="stable")][:most] for rows in stale]
    rows = np.concatenate([none, *largest])
    ranks = np.concatenate([none, *(np.arange(len(of_class)) for of_class in largest)])
    return rows[np.lexsort((negative(rows), ranks))][:most]
