"""Dates, moments and times of the day in the cells of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Any

DATE_FORMATS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y",
    "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
TIME_FORMATS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
ISO = "iso"
CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")

_CLOCK = re.compile(r"\d{1,2}:\d\d(?!\d)")  # 3:1 is a score
_FIRST_DAY = date(1970, 1, 1)


def is_clock(form: str) -> bool:
    """Says whether a format is one of times of the day, without a date.

    Args:
        form: A format that `date_format` has found.
    """
    return form in CLOCKS


def date_format(cells: Sequence[Any]) -> str | None:
    """Finds the format that all dates or times of a column have; None: they are neither.

    Args:
        cells: Cells that are not empty.

    >>> date_format(["31/12/2024", "01/02/2024"]), date_format(["12/31/2024"]), date_format(["7"])
    ('%d/%m/%Y', '%m/%d/%Y', None)
    >>> date_format(["9:30", "17:05"]), date_format(["3:1", "0:2"])
    ('%H:%M', None)
    """
    if all(isinstance(cell, date) for cell in cells):
        return ISO
    if all(isinstance(cell, time) for cell in cells):
        return CLOCKS[1]
    texts = [str(c).strip() if isinstance(c, time) else c for c in cells]
    texts = [text.strip() for text in texts if isinstance(text, str)]
    if len(texts) < len(cells) or not all(any(c.isdigit() for c in t) for t in texts):
        return None
    if all(len(text) >= len("2024-01-01") and _parses(text, ISO) for text in texts):
        return ISO
    if all(map(_CLOCK.match, texts)):
        return next((form for form in CLOCKS if all(_parses(t, form) for t in texts)), None)
    formats = (day + time_of_day for day in DATE_FORMATS for time_of_day in TIME_FORMATS)
    return next((form for form in formats if all(_parses(t, form) for t in texts)), None)


def read_date(cell: Any, form: str, column: str) -> float:
    """Reads a date as days since 1970; a time, as the part of the day that is over.

    Args:
        cell: The value of the cell.
        form: The format of the column.
        column: The name of the column, for the message.

    Raises:
        ValueError: It is not of this format.

    >>> read_date("12:00", "%H:%M", "seen"), read_date("1970-01-02", "iso", "seen")
    (0.5, 1.0)
    """
    try:
        return _moment(cell, form).timestamp() / 86400
    except (ValueError, OverflowError):
        kind = "time" if is_clock(form) else "date"
        raise ValueError(f"column '{column}' is not a {kind} but {str(cell)[:40]!r}") from None


def _parses(text: str, form: str) -> bool:
    try:
        _moment(text, form)
    except ValueError:
        return False
    return True


def _moment(cell: Any, form: str) -> datetime:
    """Reads a date or a moment; moments with a time zone are brought to UTC."""
    if not isinstance(cell, str) and isinstance(cell, time) != is_clock(form):
        raise ValueError("a time among dates, or a date among times")
    if isinstance(cell, time):
        moment = datetime.combine(_FIRST_DAY, cell)
    elif isinstance(cell, datetime):
        moment = cell
    elif isinstance(cell, date):
        moment = datetime(cell.year, cell.month, cell.day)
    elif form == ISO:
        moment = datetime.fromisoformat(str(cell).strip())
    else:
        moment = datetime.strptime(str(cell).strip(), form)
        if is_clock(form):
            moment = datetime.combine(_FIRST_DAY, moment.time())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
