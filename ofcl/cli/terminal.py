"""The terminal: results on standard output, everything else on standard error."""

from __future__ import annotations

from rich.console import Console

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


def printable(text: str) -> str:
    """Replaces letters that a terminal would obey: names of files and labels may be anybody's.

    Args:
        text: The text; line breaks stay.

    >>> printable(chr(27) + "[2Jcat")
    '·[2Jcat'
    """
    return "".join(c if c.isprintable() or c == "\n" else "·" for c in text)
