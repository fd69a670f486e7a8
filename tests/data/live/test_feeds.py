"""Feeds by name."""

import pytest

from ofcl import Reading, WatchedFolder
from ofcl.data.live.feeds import open_feed
from ofcl.errors import OfclError


def test_streams_by_name(tmp_path):
    assert isinstance(open_feed(f"watch:{tmp_path}", Reading(), None, None), WatchedFolder)
    with pytest.raises(OfclError, match="not a folder"):
        open_feed("watch:/nowhere", Reading(), None, None)
    with pytest.raises(OfclError, match="unknown stream 'kafka:x'"):
        open_feed("kafka:x", Reading(), None, None)
