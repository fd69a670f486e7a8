"""Watched folders that are looked at without a pause."""

import pytest

from ofcl.data.live import watched_folder


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
