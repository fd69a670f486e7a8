"""The command line in a process of its own, as a user has it, but for the imports.

Importing PyTorch takes two seconds, and tests start a hundred commands. So one process imports
everything once, and each command is a fork of it: a process like any other, that can be killed.
"""

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

import torch

from ofcl.cli.main import main

ENVIRONMENT = {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["ofcl.cli.main"])  # by the name of an installed package


def _run(arguments, cwd, environment, folder, prepare):
    """In the child: what standard output and error get goes to files."""
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT), descriptor)
    torch.set_num_threads(1)
    os.chdir(cwd or ".")
    if prepare is not None:
        prepare()
    sys.argv = ["ofcl", *arguments]
    main()


class Command:
    """A command that runs; `prepare` is called before it, in its process."""

    def __init__(self, *arguments, cwd=None, prepare=None):
        self._folder = tempfile.TemporaryDirectory()
        given = [str(argument) for argument in arguments]
        environment = {**os.environ, **ENVIRONMENT}
        target = (given, cwd and str(cwd), environment, self._folder.name, prepare)
        self._process = _context.Process(target=_run, args=target, daemon=True)
        before = {name: os.environ.get(name) for name in ENVIRONMENT}
        os.environ.update(ENVIRONMENT)  # the process that is forked starts with the first, in this
        try:
            self._process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    @property
    def running(self):
        """Whether it has not ended."""
        return self._process.is_alive()

    def kill(self):
        """Ends it with -9."""
        self._process.kill()
        self._process.join()

    def wait(self, timeout=120):
        """Exit code, standard output and standard error, when it has ended."""
        self._process.join(timeout)
        assert not self.running, "the command does not end"
        out, err = ((Path(self._folder.name) / name).read_text() for name in ("out", "err"))
        return self._process.exitcode, out, err


def ofcl(*arguments, cwd=None, prepare=None):
    """Runs a command; gives exit code, standard output and standard error."""
    return Command(*arguments, cwd=cwd, prepare=prepare).wait()
