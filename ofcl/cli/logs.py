"""The log of the commands: plain lines for people, or lines of JSON for programs.

Everything that commands say goes through the logger `ofcl` of Python's `logging`, and is printed to
standard error; a program that imports the package decides for itself. Progress is not logged.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime

from ofcl.cli.terminal import err_console
from ofcl.errors import printable

VARIABLE = "OFCL_LOG"
"""The environment variable that asks for lines of JSON: OFCL_LOG=json, as --log-json does."""

PREFIX = {logging.WARNING: "warning: ", logging.ERROR: "error: "}


class PlainLog(logging.Handler):
    """Prints each message as a line that people read."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a message; letters that a terminal would obey are replaced.

        Args:
            record: The message.
        """
        text = printable(PREFIX.get(record.levelno, "") + record.getMessage())
        err_console.print(text, highlight=False, markup=False, soft_wrap=True)


class JsonLog(logging.Handler):
    """Prints each message as one line of JSON: time (UTC), level, logger, message."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a message.

        Args:
            record: The message.
        """
        print(self.format(record), file=sys.stderr, flush=True)

    def format(self, record: logging.LogRecord) -> str:
        """Writes a message as JSON.

        Args:
            record: The message.
        """
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "logger": record.name,
                "message": record.getMessage()}  # fmt: skip
        return json.dumps(line)


def as_line(text: str) -> str:
    """Writes a message as the log would, for a terminal that the log does not reach.

    Args:
        text: The message.
    """
    logger = logging.getLogger("ofcl")
    handler = next((each for each in logger.handlers if isinstance(each, JsonLog)), None)
    if handler is None:
        return text
    return handler.format(logger.makeRecord("ofcl", logging.INFO, "", 0, text, (), None))


def log_to_terminal(as_json: bool = False) -> None:
    """Lets the package's log be printed to standard error, once.

    Args:
        as_json: Whether as lines of JSON; the environment variable `OFCL_LOG=json` asks for it too.
    """
    logger = logging.getLogger("ofcl")
    as_json = as_json or os.environ.get(VARIABLE, "").lower() == "json"
    logger.handlers = [JsonLog() if as_json else PlainLog()]
    logger.setLevel(logging.INFO)
    logger.propagate = False  # a tracker may have put a handler of its own at the root
