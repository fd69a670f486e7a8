"""Making a list of runs, several at once, until all have ended or somebody wants to stop."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from ofcl.jobs.pool import Pool
from ofcl.jobs.work import Report, Work

SECONDS_BETWEEN_LOOKS = 0.2


def make_all(
    works: Iterable[Work], pool: Pool, stop: threading.Event
) -> Iterator[tuple[Work, Report]]:
    """Makes runs, as many at once as the pool has workers, and yields all their reports.

    Args:
        works: The runs; each is taken when a worker is free for it.
        pool: The workers.
        stop: When it is set, no more runs are begun, and those that go on save their state and
            stop.
    """
    waiting, asked = iter(works), False
    following: Work | None = next(waiting, None)
    while pool.busy or (following is not None and not stop.is_set()):
        if stop.is_set() and not asked:
            pool.stop()
            asked = True
        while following is not None and pool.free and not stop.is_set():
            pool.start(following)
            following = next(waiting, None)
        yield from pool.reports(SECONDS_BETWEEN_LOOKS)
