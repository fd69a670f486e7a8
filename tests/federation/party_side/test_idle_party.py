"""A party without work looks for messages less and less often."""

from types import SimpleNamespace

import pytest

from ofcl.federation.party_side import flower_connection
from ofcl.federation.party_side.flower_connection import FlowerConnection


class Over(BaseException):
    """Ends the party."""


def looks(monkeypatch, seconds, messages=()):
    """When an idle party looks for messages, which come at certain times."""
    clock, found, left = [0.0], [], sorted(messages)

    class Mailbox:
        def __init__(self, *_):
            pass

        def receive(self):
            if clock[0] > seconds:
                raise Over
            found.append(clock[0])
            return left.pop(0) if left and left[0] <= clock[0] else None

    def sleep(pause):
        clock[0] += pause

    time = SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0])
    monkeypatch.setattr(flower_connection, "Mailbox", Mailbox)
    monkeypatch.setattr(flower_connection, "time", time)
    party = SimpleNamespace(_client=None, _node=None, _caller=None, _answer=lambda *_: None,
                            _send=lambda *_: None)  # fmt: skip
    with pytest.raises(Over):
        FlowerConnection.serve(party, None, None)
    return found


def test_an_idle_hour_costs_the_server_few_looks_and_work_is_found_soon(monkeypatch):
    idle = looks(monkeypatch, 3600.0)
    assert len(idle) < 500  # it was 36,000: ten a second
    busy = looks(monkeypatch, 660.0, messages=[600.0, 620.0])
    after = [moment for moment in busy if moment > 600.0]
    assert after[0] < 610.0
    assert after[1] - after[0] < 0.2  # who has work looks often again
