"""A job that is submitted until its run is over, on an NVFlare that is a stand-in."""

import pytest

from ofcl import OfclError
from ofcl.federation.nvflare_app.keep_running import EARLY, IDLE, LOOK, TRIES, Errors, Keeper

SITES = ("hospital-a", "hospital-b")


class Gone(Exception):
    pass


class Refused(Exception):
    pass


class Lost(Exception):
    pass


class Alone(Exception):
    pass


class NVFlare:
    """A server with sites, whose jobs go as a script of steps says, one for each pause."""

    def __init__(self, *script):
        self.script, self.now = list(script), 0.0
        self.connected, self.working = set(SITES), {}
        self.jobs, self.down = {}, False
        self.sessions, self.said, self.dead = 0, [], set()

    def keep(self, job="job"):
        def connect():
            self._check()
            self.sessions += 1
            return self

        Keeper(
            connect,
            Errors(server=(Gone,), refused=(Refused,), job=(Lost,), sites=(Alone,)),
            job,
            SITES,
            tell=self.said.append,
            pause=self.pause,
            clock=lambda: self.now,
        ).run()

    def pause(self, seconds):
        assert seconds == LOOK
        self.now += seconds
        if self.script and (step := self.script.pop(0)):
            step(self)
        assert self.script or self.now < 10_000, self.said

    def _check(self):
        if self.down:
            raise Gone("no server")

    def submit_job(self, path):
        self._check()
        name = f"job {len(self.jobs) + 1}"
        self.jobs[name] = "RUNNING"
        self.working[name] = set(self.connected)
        return name

    def get_job_meta(self, job):
        self._check()
        if job not in self.jobs:
            raise Lost(job)
        return {"status": self.jobs[job]}

    def abort_job(self, job):
        if job in self.dead:
            raise Refused("not running")
        self.jobs[job] = "FINISHED:ABORTED"

    def get_client_job_status(self):
        self._check()
        if not self.connected:
            raise Alone
        newest = f"job {len(self.jobs)}"
        working = self.working[newest] if self.jobs.get(newest) == "RUNNING" else ()
        return [
            {"client_name": site, **({"job_id": newest} if site in working else {})}
            for site in self.connected
        ]

    def close(self):
        return None


def ends(status):
    return lambda flare: flare.jobs.update({f"job {len(flare.jobs)}": f"FINISHED:{status}"})


def later(seconds):
    return [None] * int(seconds / LOOK)


def test_a_job_that_is_completed_is_submitted_once():
    flare = NVFlare(None, ends("COMPLETED"))
    flare.keep()
    assert list(flare.jobs) == ["job 1"]
    assert flare.said == ["submitted as job job 1", "job job 1: FINISHED:COMPLETED"]


def test_a_site_that_is_back_is_taken_into_another_job():
    def die(flare):
        flare.connected.remove("hospital-b")
        flare.working["job 1"].remove("hospital-b")

    def back(flare):
        flare.connected.add("hospital-b")

    flare = NVFlare(None, die, *later(100), back, *later(IDLE + 10), ends("COMPLETED"))
    flare.keep()
    assert flare.jobs == {"job 1": "FINISHED:ABORTED", "job 2": "FINISHED:COMPLETED"}
    assert "hospital-b is there and not in the job: it is ended, and submitted again" in flare.said


def test_a_site_that_never_starts_the_job_does_not_end_it_for_ever():
    def refuse(flare):
        flare.working[f"job {len(flare.jobs)}"].discard("hospital-b")

    flare = NVFlare(*[refuse] * int((TRIES + 3) * IDLE), ends("COMPLETED"))
    flare.keep()
    assert len(flare.jobs) == TRIES + 1
    assert any("hospital-b does not start the job" in line for line in flare.said)


def test_a_server_that_was_killed_gets_the_job_again():
    def die(flare):
        flare.down = True

    def back(flare):  # the job is called RUNNING, and no site has it
        flare.down = False
        flare.dead.add("job 1")
        flare.working["job 1"].clear()

    flare = NVFlare(None, die, None, None, back, *later(IDLE + 10), ends("COMPLETED"))
    flare.keep()
    assert flare.jobs == {"job 1": "RUNNING", "job 2": "FINISHED:COMPLETED"}
    assert flare.sessions == 2
    assert sum("cannot be reached" in line for line in flare.said) == 1  # told once
    assert "job job 1 does not run any more" in flare.said


def test_a_job_that_the_server_has_lost_is_submitted_again():
    def lose(flare):
        flare.jobs["old"] = flare.jobs.pop("job 1")

    flare = NVFlare(None, lose, None, None, ends("COMPLETED"))
    flare.keep()
    assert flare.jobs["job 2"] == "FINISHED:COMPLETED"


def test_nothing_is_submitted_before_a_site_is_there():
    def come(flare):
        flare.connected = {"hospital-b"}

    flare = NVFlare(*later(20), come, None, None, ends("COMPLETED"))
    flare.connected = set()
    flare.keep()
    assert flare.said[0] == "waiting for hospital-a, hospital-b"
    assert list(flare.jobs) == ["job 1"]


def test_jobs_that_end_early_again_and_again_are_given_up():
    flare = NVFlare(*[ends("EXECUTION_EXCEPTION")] * 20)
    with pytest.raises(OfclError, match="FINISHED:EXECUTION_EXCEPTION; the log"):
        flare.keep()
    assert len(flare.jobs) == TRIES


def test_jobs_that_have_lasted_are_not_given_up():
    once = [*later(EARLY + 10), ends("EXECUTION_EXCEPTION"), None]
    flare = NVFlare(*once * (TRIES + 2), None, ends("COMPLETED"))
    flare.keep()
    assert len(flare.jobs) == TRIES + 3


def test_a_job_that_somebody_aborts_stays_so():
    flare = NVFlare(None, ends("ABORTED"))
    with pytest.raises(OfclError, match="somebody has aborted the job job 1"):
        flare.keep()
