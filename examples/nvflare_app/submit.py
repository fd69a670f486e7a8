"""Submits the job, and again when a site or the server was killed, until the run is over.

python submit.py job --kit KIT --user organiser@example.org --sites hospital-a,hospital-b
"""

import argparse
from pathlib import Path

from nvflare.fuel.flare_api.flare_api import (
    InternalError,
    JobNotFound,
    JobNotRunning,
    NoClientsAvailable,
    NoConnection,
    NoReply,
    SessionClosed,
    new_secure_session,
)

from ofcl.errors import OfclError
from ofcl.federation.nvflare_app.keep_running import Errors, Keeper

ERRORS = Errors(
    server=(NoConnection, SessionClosed, NoReply),
    refused=(InternalError, JobNotRunning),
    job=(JobNotFound,),
    sites=(NoClientsAvailable,),
)


def main() -> None:
    """Reads the command line, and keeps the run going."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", type=Path, help="the job's folder")
    parser.add_argument("--kit", type=Path, required=True, help="the administrator's startup kit")
    parser.add_argument("--user", required=True, help="the administrator's name in it")
    parser.add_argument("--sites", required=True, help="the sites, with commas between them")
    given = parser.parse_args()
    keeper = Keeper(
        lambda: new_secure_session(given.user, str(given.kit)),
        ERRORS,
        given.job.resolve(),
        given.sites.split(","),
        tell=lambda line: print(line, flush=True),
    )
    try:
        keeper.run()
    except OfclError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
