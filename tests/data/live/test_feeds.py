"""Feeds by name."""

from importlib.metadata import EntryPoint

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


class Readings:
    """A feed of one's own, as a package announces it."""

    rereads = True

    def __init__(self, argument, how, task):
        self.known, self.made_of = {}, (argument, how, task)

    def open(self, taken):
        return iter([])


def test_a_feed_of_an_installed_package(monkeypatch):
    point = EntryPoint("readings", f"{__name__}:Readings", "ofcl.feeds")
    for module in ("ofcl.data.live.feeds", "ofcl.own_parts.lookup"):
        monkeypatch.setattr(f"{module}.installed", lambda kind: {"readings": point})
    how = Reading()
    assert open_feed("readings:ward:a", how, "day", None).made_of == ("ward:a", how, "day")
    with pytest.raises(OfclError, match="unknown stream 'kafka:x'; .*, readings:…"):
        open_feed("kafka:x", how, None, None)
