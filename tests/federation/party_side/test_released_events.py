"""The events that leave a party."""

from dataclasses import replace

from ofcl.events import Evaluated, Learned, Remembered, Skipped
from ofcl.federation.party_side.released_events import leaving


def test_what_is_told_of_events_is_no_more_than_needed():
    events = [
        Learned(0, 0, 1, 10, 2.0, 3), Remembered(0, 0, 1, [[0, 1, 5]]), Learned(0, 0, 1, 8, 1.0, 4),
        Skipped(0, "/secret/file.csv", 3, "bad"),
        Evaluated(0, 0, [[[4, 1, 2], [7, 3, 3]]], [[]], [[[4, 0, 2], [7, 1, 3]]]),
        Learned(0, 1, 1, 5, 9.0, 0),
    ]  # fmt: skip
    sure = replace(events[4], confusions=[[4, 7, 2], [7, 7, 1], [7, 4, 2]])
    assert leaving([sure], True) == [events[4]]
    assert leaving(events, True) == [Learned(0, 0, 2, 18, 3.0, 7), events[4], events[5]]
    told = leaving(events, False)
    assert told[1] == Evaluated(0, 0, [[[-1, 4, 5]]], [[]], [[[-1, 1, 5]]])
