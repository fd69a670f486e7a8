"""Submits a job until its run is over: NVFlare does not start the processes of a job again.

A site that was killed is in no job when it is back. When a server is back, none of its jobs runs,
though they are called so. Each job goes on with the run in the same directory, so that another one
takes everybody in.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ofcl.errors import OfclError

LOOK = 2.0  # seconds between two looks at the job
IDLE = 30.0  # seconds for which a site may be connected and in no job, before there is a new one
EARLY = 60.0  # a job that has ended by itself within so many seconds may never do better
TRIES = 3  # so many of these in a row are enough; so many jobs may be ended for one site


class Session(Protocol):
    """A session of NVFlare's administrator, as far as it is used (`nvflare.fuel.flare_api`)."""

    def submit_job(self, job_definition_path: str) -> str:
        """Submits a job; gives its identifier."""

    def get_job_meta(self, job_id: str) -> dict[str, Any]:
        """Describes a job, with its `status`."""

    def abort_job(self, job_id: str) -> object:
        """Ends a job."""

    def get_client_job_status(self) -> list[dict[str, Any]] | None:
        """Describes which jobs the connected sites have, by `client_name` and `job_id`."""

    def close(self) -> object:
        """Ends the session."""


@dataclass(frozen=True)
class Errors:
    """The errors by which NVFlare says what is not there.

    Args:
        server: Its server cannot be reached.
        refused: It has refused a command. To abort a job, it does so if the job does not run.
        job: It does not know the job.
        sites: No site is connected.
    """

    server: tuple[type[Exception], ...]
    refused: tuple[type[Exception], ...]
    job: tuple[type[Exception], ...]
    sites: tuple[type[Exception], ...]


class Keeper:
    """Keeps a run going on somebody's NVFlare.

    Args:
        connect: Opens a session.
        errors: The errors by which NVFlare says what is not there.
        job: The job's folder.
        sites: The names of the sites that take part.
        tell: Is given each line for the user.
        pause: Waits for some seconds.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        errors: Errors,
        job: Path,
        sites: Collection[str],
        *,
        tell: Callable[[str], None] = print,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._errors = connect, errors
        self._job, self._sites = job, set(sites)
        self._tell, self._pause, self._clock = tell, pause, clock
        self._session: Session | None = None
        self._submitted, self._since = "", 0.0  # the job that was submitted last, and when
        self._ended = False  # whether that was ended here, for a site that is back
        self._early = 0  # jobs in a row that have ended early
        self._idle: dict[str, float] = {}  # site → since when it is connected and in no job
        self._ended_for: Counter[str] = Counter()  # site → jobs in a row that were ended for it
        self._said = ""

    def run(self) -> None:
        """Submits the job, as often as needed, until one has ended with its run.

        Raises:
            OfclError: If somebody has aborted the job, or jobs end again and again.
        """
        try:
            while not self._step():
                self._pause(LOOK)
        finally:
            self._leave()

    def _step(self) -> bool:
        """Does the next thing to do; tells whether the run is over."""
        try:
            if self._session is None:
                self._session = self._connect()
            status = self._status(self._session)
            if not self._submitted:
                self._submit(self._session, {str(entry["client_name"]) for entry in status})
                return False
            state = str(self._session.get_job_meta(self._submitted)["status"])
            if state.startswith("FINISHED"):
                return self._over(state)
            if state == "RUNNING" and not self._ended:
                self._look_at_sites(self._session, status)
        except self._errors.job:
            self._say(f"the server has lost job {self._submitted}")
            self._submitted = ""
        except (*self._errors.server, *self._errors.refused) as error:
            self._say(f"the server cannot be reached, trying again ({error})")
            self._leave()
        return False

    def _status(self, session: Session) -> list[dict[str, Any]]:
        """Describes which jobs the connected sites have."""
        try:
            return session.get_client_job_status() or []
        except self._errors.sites:
            return []

    def _submit(self, session: Session, connected: set[str]) -> None:
        """Submits the job when a site is there; without any, NVFlare would soon give it up."""
        if not connected & self._sites:
            self._say(f"waiting for {', '.join(sorted(self._sites))}")
            return
        self._submitted, self._since = session.submit_job(str(self._job)), self._clock()
        self._ended, self._idle = False, {}
        self._say(f"submitted as job {self._submitted}")

    def _over(self, state: str) -> bool:
        """Looks how a job has ended; tells whether the run is over."""
        job, self._submitted = self._submitted, ""
        self._say(f"job {job}: {state}")
        if state == "FINISHED:COMPLETED":
            return True
        if self._ended:
            return False
        if state == "FINISHED:ABORTED":
            raise OfclError(f"somebody has aborted the job {job}; start this again to go on")
        self._early = self._early + 1 if self._clock() - self._since < EARLY else 0
        if self._early >= TRIES:
            raise OfclError(
                f"{TRIES} jobs in a row ended within {EARLY:.0f} seconds, the last one, {job}, "
                f"with {state}; the log of the server's job says why"
            )
        return False

    def _look_at_sites(self, session: Session, status: list[dict[str, Any]]) -> None:
        """Ends the job if a site has been connected and in no job for some time."""
        now = self._clock()
        working = {str(e["client_name"]) for e in status if e.get("job_id") == self._submitted}
        connected = {str(entry["client_name"]) for entry in status}
        for site in working:
            self._ended_for.pop(site, None)
        here = (connected - working) & self._sites
        self._idle = {site: self._idle.get(site, now) for site in here}
        for site, since in sorted(self._idle.items()):
            if now - since < IDLE:
                continue
            if self._ended_for[site] >= TRIES:
                self._say(f"{site} does not start the job; its own log says why")
                continue
            self._ended_for[site] += 1
            self._say(f"{site} is there and not in the job: it is ended, and submitted again")
            self._end(session)
            return

    def _end(self, session: Session) -> None:
        """Ends the job; one whose server was killed does not run, whatever its status says."""
        try:
            session.abort_job(self._submitted)
            self._ended = True
        except self._errors.refused:
            self._say(f"job {self._submitted} does not run any more")
            self._submitted = ""

    def _say(self, line: str) -> None:
        """Tells the user a line, once."""
        if line != self._said:
            self._tell(line)
        self._said = line

    def _leave(self) -> None:
        """Ends the session."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except (*self._errors.server, *self._errors.refused):
                return
