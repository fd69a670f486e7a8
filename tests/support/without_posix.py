"""A Python in which the modules and calls are missing that only POSIX systems have.

Run as a script, it hides them and then runs the command line: python without_posix.py ARGUMENTS.
"""

import importlib.abc
import os
import signal
import sys

MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline"}
CALLS = ("fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getgroups", "chown",
         "lchown", "fchmod", "fchown", "mkfifo", "setsid", "killpg", "getpgid", "getloadavg",
         "sched_getaffinity", "uname", "sysconf", "statvfs", "nice", "O_NOFOLLOW", "O_NONBLOCK",
         "O_DIRECTORY", "O_CLOEXEC", "O_SYNC")  # fmt: skip
SIGNALS = ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGPIPE",
           "pause", "alarm", "sigwait", "pthread_sigmask", "set_wakeup_fd")  # fmt: skip


class Refuses(importlib.abc.MetaPathFinder):
    """Finds no module that Windows does not have."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named '{name}' (hidden)", name=name)


def hide():
    """Hides the modules, and the calls once other packages have been imported.

    Other packages look at the platform's name, which stays, so they may import what they like.
    `filelock` takes its locks for Windows there; here, those that every system has stand for them.
    """
    import filelock
    import pooch  # noqa: F401
    import pydantic  # noqa: F401
    import rich.console  # noqa: F401
    import torch  # noqa: F401
    import typer  # noqa: F401

    filelock.FileLock = filelock.SoftFileLock
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Refuses())
    for name in CALLS:
        if hasattr(os, name):
            delattr(os, name)
    for name in SIGNALS:
        if hasattr(signal, name):
            delattr(signal, name)
    assert not any(name.split(".")[0] == "ofcl" for name in sys.modules)


if __name__ == "__main__":
    hide()
    from ofcl.cli.main import main

    sys.argv = ["ofcl", *sys.argv[1:]]
    main()
