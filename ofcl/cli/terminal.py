"""The terminal: results on standard output, everything else on standard error."""

from __future__ import annotations

from rich.console import Console

from ofcl.errors import printable

out_console = Console()
err_console = Console(stderr=True)


def say(text: str) -> None:
    """Prints one line to standard error.

    Args:
        text: The line.
    """
    err_console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Prints a warning to standard error.

    Args:
        text: The warning, without the word "warning".
    """
    say(f"warning: {text}")
