"""Stopping a run by Ctrl-C or SIGTERM: between two mini-batches, so that its state can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ofcl.errors import OfclError


class Interrupted(OfclError):
    """Raised when Ctrl-C or SIGTERM has stopped a run, after its state has been saved."""


class Stopped(Exception):
    """Raised between two mini-batches after Ctrl-C or SIGTERM; a run then saves its state."""


@contextmanager
def stop_requested(stop: threading.Event) -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM set an event within the context, after which a run stops by itself.

    A second Ctrl-C interrupts at once. Outside of the main thread nothing changes, because Python
    delivers no signals there.

    Args:
        stop: The event that is set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in before:
        signal.signal(number, request)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
