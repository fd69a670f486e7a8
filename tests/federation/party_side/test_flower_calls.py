"""A party's calls to the server, and what its refusals mean."""

import re
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from ofcl.federation.party_side.flower_calls import Caller, Refused


def test_a_wrong_clock_is_told_from_a_wrong_key():
    def refused(seconds):
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
        response = SimpleNamespace(status_code=401, headers={"date": date})
        caller = Caller("here:1", plain=False, tell=print, leaving=threading.Event())
        with pytest.raises(Refused) as error:
            caller.judge(SimpleNamespace(response=response))
        return str(error.value)

    assert re.search(r"clock here is (29|30|31) s ahead of", refused(-30))
    assert re.search(r"clock here is (399|400|401) s behind", refused(400))
    for near in (0, 60):  # Flower lets a clock be five minutes behind
        assert "does not know this party's key" in refused(near)
