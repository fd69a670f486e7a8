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
    """Chooses the rows whose keys are computed when a mini-batch is offered to a memory.

    Args:
        table: The memory's table: the keys so far, and which of them are from before a round.
        rekey: When the policy computes keys anew.
        crowded: The rows of each crowded class.
        new: The rows of the mini-batch on offer.
        together: Whether the rows of all crowded classes are one group; otherwise each class is
            one.
        priority: Computes the samples' priorities from their keys; the samples with the largest
            leave the memory first.

    Returns:
        Groups of rows; the keys of a group are computed in one call. [] if no keys are needed.
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
    """Returns rows that would leave the memory first and whose keys are from before the last round.

    The row with the largest priority of each class comes first, then the second largest of each
    class, and so on.

    Args:
        table: The memory's table.
        crowded: The rows of each crowded class.
        most: The largest number of rows to return.
        priority: Computes the samples' priorities from their keys; the samples with the largest
            leave the memory first.
    """

    def negative(rows: np.ndarray) -> np.ndarray:
        return -priority(table.key[rows], table.id[rows])

    none = np.empty(0, dtype=np.int64)
    stale = [rows[table.stale[rows]] for rows in crowded]
    largest = [rows[np.argsort(negative(rows), kind="stable")][:most] for rows in stale]
    rows = np.concatenate([none, *largest])
    ranks = np.concatenate([none, *(np.arange(len(of_class)) for of_class in largest)])
    return rows[np.lexsort((negative(rows), ranks))][:most]
