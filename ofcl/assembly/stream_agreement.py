"""The agreement of a run's streams before learning begins: one scale, one code of the columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ofcl.assembly.stream_remarks import describe_left_out
from ofcl.data.live.live_agreement import Agreement
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.sample import StreamError
from ofcl.engines.local import LOOK_AGAIN


def agree(
    live: Sequence[LiveStream],
    pause: Callable[[float], None],
    tell: Callable[[str], None],
    *,
    window: int,
    patience: float,
) -> Agreement | None:
    """Lets all streams agree on how rows and vectors, of images too, become a model's input.

    Waits until every stream has brought as many samples as the window has, has ended, or is
    damaged. Streams that need longer are waited for as clients are before a round (`patience`);
    they take over what the others have agreed on.

    Args:
        live: The clients' streams, of which one has brought a sample.
        pause: Waits for the given number of seconds; it may raise to end the run.
        tell: Is given each line for the user.
        window: The number of first samples of each client.
        patience: The seconds for which a stream with too few samples is waited for.

    Returns:
        The agreement; None: the samples need none, or the streams have one from an earlier run.
    """
    if not any(stream.form.undecided for stream in live):
        return None
    since, told = None, False
    while True:
        there = [_has_first_samples(stream) for stream in live]
        if all(there) or (since is not None and time.monotonic() - since >= patience):
            break
        if not told:
            tell(_waiting(live[0].form.embeds_images, window))
            told = True
        if any(there) and since is None:
            since = time.monotonic()
        pause(LOOK_AGAIN)
    return settle(live, tell)


def settle(live: Sequence[LiveStream], tell: Callable[[str], None]) -> Agreement | None:
    """Makes an agreement of the first samples that have come, and gives it to all streams.

    Args:
        live: The clients' streams.
        tell: Is given each line for the user.

    Returns:
        The agreement; None: no stream has a usable sample.
    """
    windows = [stream.first_samples() for stream in live]
    if not any(windows):  # what is wrong is raised by the stream that has it
        for stream in live:
            stream.ready()
        return None
    agreement = live[0].form.agree_on(windows)
    for stream in live:
        stream.take(agreement)
    if line := describe_left_out(agreement.left_out):
        tell(line)
    return agreement


def _waiting(images: bool, window: int) -> str:
    """Writes the line about samples that are waited for before learning begins."""
    samples, numbers = ("images", "their vectors") if images else ("rows", "numbers")
    unscaled = ", or features=unit" if images else ""
    return (f"learning begins when {window} {samples} of each client have come: {numbers} are "
            f"standardised by them, for all clients alike (--set window=N{unscaled})")  # fmt: skip


def _has_first_samples(stream: LiveStream) -> bool:
    """Says whether nobody need wait for a stream; a damaged one is stopped when it learns."""
    try:
        return stream.has_first_samples()
    except StreamError:
        return True
