"""The command line in a process of its own, as a user has it, but for the imports.

Importing PyTorch takes two seconds, Flower two more, and tests start hundreds
of commands. So one process imports everything once, and each command is a fork of it: a process
like any other, that can be killed. tests/docs/test_readme.py starts commands as a user does.
Every test process that starts commands has such a process of its own; `in_one_process` keeps the
tests of commands together, so that there are few.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from ofcl.cli.main import main

ENVIRONMENT = {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}

in_one_process = pytest.mark.xdist_group("commands")

_context = multiprocessing.get_context("forkserver")


def preload(*modules):
    """Names more modules to import once, before the first command."""
    # By the names of installed packages; one that is not there is left out.
    _context.set_forkserver_preload(["ofcl.cli.main", *modules])


preload()


def _run(arguments, cwd, environment, outputs, stdin, prepare):
    """In the child: what standard output and error get goes to files."""
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in zip((1, 2), outputs, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    if stdin is not None:
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        sys.stdin = open(0)  # noqa: SIM115
    torch.set_num_threads(1)
    os.chdir(cwd or ".")
    if prepare is not None:
        prepare()
    sys.argv = ["ofcl", *arguments]
    main()


class Command:
    """A command that runs.

    `prepare` is called before it, in its process. `log` is a file to which all that it says is
    appended; `stdin` is a file or a named pipe.
    """

    def __init__(self, *arguments, cwd=None, prepare=None, log=None, stdin=None):
        self._folder = tempfile.TemporaryDirectory()
        names = [log, log] if log else [Path(self._folder.name) / name for name in ("out", "err")]
        self._outputs = [Path(name) for name in names]
        given = [str(argument) for argument in arguments]
        environment = {**os.environ, **ENVIRONMENT}
        target = (given, cwd and str(cwd), environment, self._outputs, stdin, prepare)
        self._process = _context.Process(target=_run, args=target, daemon=True)
        before = {name: os.environ.get(name) for name in ENVIRONMENT}
        os.environ.update(ENVIRONMENT)  # the process that is forked starts with the first, in this
        try:
            self._process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self.pid = self._process.pid

    @property
    def running(self):
        """Whether it has not ended."""
        return self._process.is_alive()

    def send(self, number):
        """Sends it a signal, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self, number=signal.SIGKILL):
        """Ends it by a signal: -9, or another one that it obeys."""
        self.send(number)
        self.wait()

    def wait(self, timeout=120):
        """Exit code, standard output and standard error, when it has ended."""
        self._process.join(timeout)
        assert not self.running, "the command does not end"
        out, err = (path.read_text() if path.exists() else "" for path in self._outputs)
        return self._process.exitcode, out, err


def ofcl(*arguments, cwd=None, prepare=None):
    """Runs a command; gives exit code, standard output and standard error."""
    return Command(*arguments, cwd=cwd, prepare=prepare).wait()
