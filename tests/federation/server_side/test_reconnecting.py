"""A run goes on by itself when its server was away."""

import pytest

from ofcl.experiment import Run
from ofcl.federation.server_side.reconnecting import until_over
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.transport import NoServer, ServerGone
from ofcl.storage.run_directory import RunDirectory
from tests.support.federation import FEDERATION, SMALL, InProcess, members
from tests.support.remote import assert_same

FEW = {**SMALL, "limit": 6, "tasks": 2, "hidden": 4}


def hosted_by(tmp_path, transport, out):
    stage = FederationStage(FEDERATION, tmp_path, transport)
    if RunDirectory(out).started():
        return Run.resume(out, stage=stage, tell=lambda line: None)
    return Run(run_settings(FEDERATION, FEW), out=out, stage=stage, tell=lambda line: None)


def finished(run):
    for _ in run:
        pass
    return run.server.model


class Dying(InProcess):
    """A transport whose server goes away at some looks for answers."""

    def __init__(self, members, at):
        super().__init__(members)
        self.at, self.looks = at, 0

    def fetch(self, messages):
        self.looks += 1
        if self.looks in self.at:
            self.sent.clear()
            raise ServerGone("it has gone")
        return super().fetch(messages)


def test_a_run_whose_server_dies_twice_ends_like_one_whose_server_does_not(tmp_path):
    whole = finished(hosted_by(tmp_path, InProcess(members(tmp_path / "a")), tmp_path / "whole"))
    transport, said, firsts = Dying(members(tmp_path / "b"), {1, 4, 9}), [], []

    def attempt(first):
        firsts.append(first)
        if len(firsts) == 2:
            raise NoServer("it is not back yet")
        return finished(hosted_by(tmp_path, transport, tmp_path / "run"))

    assert_same(until_over(attempt, said.append), whole)
    assert firsts == [True, False, False, False, False]
    assert [line.partition(";")[0] for line in said] == ["it has gone"] * 3


def test_a_first_start_without_a_server_is_an_error():
    def attempt(first):
        raise NoServer("no server at 127.0.0.1:8000")

    with pytest.raises(NoServer, match="no server"):
        until_over(attempt, pytest.fail)
