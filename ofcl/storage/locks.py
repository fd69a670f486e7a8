"""Locks between processes, by files: on every system, freed when a process ends or is killed."""

from __future__ import annotations

import stat
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from ofcl.errors import OfclError


class Lock:
    """A lock that this process holds; closing it, or leaving its `with` block, frees it.

    Args:
        lock: The lock, held.
    """

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    def close(self) -> None:
        """Frees the lock; a second time does nothing."""
        self._lock.release()

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def try_lock(path: Path) -> Lock | None:
    """Takes a lock if no other process has it.

    Args:
        path: The lock's file; it is made if it is not there.

    Returns:
        The lock; None: another process, or another part of this one, holds it.

    Raises:
        OfclError: If the file is a link, has a second name, or is no plain file.
    """
    lock = _lock_of(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return Lock(lock)


def wait_for_lock(path: Path) -> Lock:
    """Takes a lock; waits while another process holds it.

    Args:
        path: The lock's file; it is made if it is not there.

    Raises:
        OfclError: If the file is a link, has a second name, or is no plain file.
    """
    lock = _lock_of(path)
    lock.acquire()
    return Lock(lock)


def _lock_of(path: Path) -> FileLock:
    """Makes the lock of a file; what the file points to is left alone.

    Somebody's folder may have a link to any file under the name of a lock, and older versions of
    `filelock` empty the file. Between this look and the opening, `filelock` itself follows no link
    where the system can do that (not on Windows).
    """
    try:
        about = path.lstat()
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISLNK(about.st_mode) or about.st_nlink > 1:
            raise OfclError(f"'{path}' is a link; delete it, and look what put it there")
        if not stat.S_ISREG(about.st_mode):
            raise OfclError(f"'{path}' is no plain file; delete it, and look what put it there")
    return FileLock(path, thread_local=False)
