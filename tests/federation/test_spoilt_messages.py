"""Spoilt answers, requests and introductions change nothing; `scripts/spoilt_messages.py`: more."""

import random

import pytest

from ofcl.engines.rejection import Rejected
from ofcl.federation.terms import unpack_introduction
from tests.support.federation import SMALL, InProcess, hosted, member, members
from tests.support.remote import assert_same, over_the_wire
from tests.support.spoiling_run import SpoiltMessages
from tests.support.spoilt_messages import answer_kinds, spoil_introduction

SHORT = {**SMALL, "limit": 4, "tasks": 2}


def test_spoilt_answers_and_requests_change_nothing_and_the_culprit_is_named(tmp_path):
    spoiling = SpoiltMessages(members(tmp_path / "spoilt"), answers=60, requests=24, at_once=30)
    run, said = hosted(tmp_path, spoiling, SHORT)
    spoiling.engine = lambda: run.engine
    events = list(run)
    clean, _ = hosted(tmp_path, InProcess(members(tmp_path / "clean")), SHORT)
    assert list(clean) == events
    assert_same(run.server.model, clean.server.model)
    rejected = [line for line in said if line.startswith("rejected")]
    assert len(rejected) == sum(spoiling.answered.values()) == 60
    assert all(line.startswith("rejected what hospital-c has sent: ") for line in rejected)
    assert all(line.isprintable() and len(line) < 400 for line in rejected)
    assert sum(spoiling.requested.values()) == 24
    assert spoiling.obeyed == []


def test_there_are_forty_kinds(tmp_path):
    spoiling = SpoiltMessages(members(tmp_path), answers=1, requests=0)
    run, _ = hosted(tmp_path, spoiling, SHORT)
    spoiling.engine = lambda: run.engine
    next(iter(run))
    assert len(answer_kinds(spoiling.example, random.Random(0))) >= 40


def test_spoilt_introductions_are_rejected(tmp_path):
    right = member(tmp_path, 0).answer({})
    unpack_introduction(over_the_wire(right))
    draw = random.Random(0)
    for _ in range(60):
        state = over_the_wire(right)
        kind = spoil_introduction(state, draw)
        with pytest.raises(Rejected) as error:
            unpack_introduction(state)
            pytest.fail(kind)
        assert str(error.value).isprintable()
