"""The terminal: results on standard output, everything else on standard error."""

from __future__ import annotations

import logging

from rich.console import Console

LOG = logging.getLogger("ofcl.cli")

out_console = Console()
err_console = Console(stderr=True)


def say(text: str) -> None:
    """Logs one line, which is printed to standard error.

    Args:
        text: The line.
    """
    LOG.info("%s", text)


def warn(text: str) -> None:
    """Logs a warning, which is printed to standard error.

    Args:
        text: The warning, without the word "warning".
    """
    LOG.warning("%s", text)


def say_error(text: str) -> None:
    """Logs an error, which is printed to standard error.

    Args:
        text: The error, without the word "error".
    """
    LOG.error("%s", text)
