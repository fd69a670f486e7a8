"""The contract of a feed: it brings every sample once, also if it is opened again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from ofcl.data.live.sample import Feed, Sample
from ofcl.testing.contract import find_difference, require, save_and_read, untouched_generators

PATIENCE = 10.0  # seconds until a feed must bring its next samples, or end

MakeFeed = Callable[[], Feed]


def check_feed(make: MakeFeed, most: int = 20) -> None:
    """Checks that a feed brings every sample once, also if it is opened again in the middle.

    A feed with `rereads` that is opened again skips the samples that were taken before. Any other
    feed goes on with the sample that comes next.

    Args:
        make: Makes the feed at its beginning; the same feed each time. It must bring at least two
            samples within seconds.
        most: How many samples are checked, as a feed may have no end.

    Raises:
        ContractBroken: If the feed does not keep one of its promises.
    """
    with untouched_generators("a feed"):
        feed = make()
        require(isinstance(feed, Feed), f"a feed has rereads, known and open; {feed!r} has not")
        samples = _read(feed.open({}), most)[:most]
        require(len(samples) > 1, f"a feed to check brings some samples; {len(samples)} came")
        _check_rows(samples)
        for middle in range(1, len(samples)):
            if feed.rereads:
                _check_reopened(make, samples, middle, most)
            else:
                _check_continued(make, samples, middle, most)


def _read(arrivals: Iterator[list[Sample]], most: int) -> list[Sample]:
    """Reads samples until there are at least `most` of them, or the feed has ended.

    Args:
        arrivals: The opened feed; it yields [] while no sample has arrived.
        most: How many samples to read.
    """
    samples: list[Sample] = []
    deadline = time.monotonic() + PATIENCE
    while len(samples) < most:
        some = next(arrivals, None)
        if some is None:
            break
        require(
            isinstance(some, list) and all(isinstance(sample, Sample) for sample in some),
            f"a feed brings lists of `Sample`; it brought {some!r}",
        )
        require(
            bool(some) or time.monotonic() < deadline,
            f"a feed to check brings its samples, or ends, within {PATIENCE:.0f} seconds",
        )
        samples += some
    return samples


def _check_rows(samples: list[Sample]) -> None:
    """Requires that the row numbers of each source rise from sample to sample."""
    last: dict[str, int] = {}
    for sample in samples:
        before = last.get(sample.source, -1)
        require(
            sample.row > before or bool(sample.problem),
            f"rows of a source count up; in '{sample.source}', row {sample.row} came after "
            f"{before}",
        )
        last[sample.source] = max(sample.row, before)


def _count_taken(samples: list[Sample]) -> dict[str, int]:
    """Returns, for each source, how many rows these samples have used up, for `Feed.open`."""
    return {sample.source: sample.row + 1 for sample in samples}


def _plain(sample: Sample) -> list[Any]:
    """Returns the fields of a sample as a list, which can be compared."""
    return [sample.x, sample.label, sample.task, sample.source, sample.row, sample.problem]


def _require_rest(rest: list[Sample], expected: list[Sample], promise: str) -> None:
    """Requires that exactly the expected samples came.

    Args:
        rest: The samples that came.
        expected: The samples that were expected.
        promise: The promise to be kept, for the error's message.
    """
    wanted, came = ([_plain(sample) for sample in samples] for samples in (expected, rest))
    different = find_difference(wanted, came)
    require(
        different is None,
        f"{promise}; {len(expected)} were expected and {len(rest)} came, which differ at "
        f"{different}",
    )


def _check_reopened(make: MakeFeed, samples: list[Sample], middle: int, most: int) -> None:
    """Requires that a feed that is opened again brings the samples behind those taken before.

    It is checked with a new feed, as in a new process, and with the same feed.

    Args:
        make: Makes the feed at its beginning.
        samples: The samples of the feed.
        middle: How many samples were taken before.
        most: How many samples are checked, with those taken before.
    """
    taken = _count_taken(samples[:middle])
    feed = make()
    _read(feed.open({}), middle)
    known = save_and_read(feed.known, "a feed (`known`)")
    resumed = make()
    resumed.known.update(known)
    promise = f"a feed that can be opened again brings what is behind the {middle} samples taken"
    for opened in (resumed, feed):
        rest = _read(opened.open(taken), most - middle)[: most - middle]
        _require_rest(rest, samples[middle:], promise)


def _check_continued(make: MakeFeed, samples: list[Sample], middle: int, most: int) -> None:
    """Requires that a feed that cannot reread goes on with its next sample when it is opened again.

    Args:
        make: Makes the feed at its beginning.
        samples: The samples of the feed.
        middle: How many samples are taken before, at least.
        most: How many samples are checked, with those taken before.
    """
    feed = make()
    first = _read(feed.open({}), middle)
    save_and_read(feed.known, "a feed (`known`)")
    if len(first) < len(samples):
        rest = _read(feed.open(_count_taken(first)), most - len(first))[: most - len(first)]
        promise = f"a feed that cannot go back goes on behind the {len(first)} samples that came"
        _require_rest(rest, samples[len(first) :], promise)
