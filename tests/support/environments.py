"""Environments of Python in which a user's packages are installed, and their commands as processes.

`tests.support.commands` forks commands, which is quicker; here each is a program of its own.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"


@dataclass(frozen=True)
class Environment:
    """A Python and its `ofcl`, with the variables that both are started with."""

    python: tuple
    command: tuple
    variables: dict

    def run_python(self, *arguments, cwd):
        """Runs Python to its end, without an error; gives what it prints."""
        done = self._run([*self.python, *arguments], cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ofcl(self, *arguments, cwd):
        """Runs a command to its end, without an error; gives what it prints."""
        done = self._run([*self.command, *arguments], cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments, cwd, log=os.devnull):
        """Starts a command; all that it says is appended to the file `log`."""
        return Program([*self.command, *arguments], cwd, self.variables, log)

    def _run(self, command, cwd):
        return subprocess.run([str(word) for word in command], cwd=cwd, env=self.variables,
                              capture_output=True, text=True, timeout=300)  # fmt: skip


class Program:
    """A command that runs, with the methods of `tests.support.commands.Command`."""

    def __init__(self, command, cwd, variables, log):
        self._log = Path(log)
        with open(log, "a") as told:
            self._process = subprocess.Popen(
                [str(word) for word in command], cwd=cwd, env=variables, stdout=told, stderr=told,
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self):
        """The number of its process."""
        return self._process.pid

    @property
    def running(self):
        """Whether it has not ended."""
        return self._process.poll() is None

    def send(self, number):
        """Sends a signal to it and to the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self, number=signal.SIGKILL):
        """Ends it by a signal: -9, or another one that it obeys."""
        if self.running:
            self.send(number)
        self.wait()

    def wait(self, timeout=120):
        """Exit code, and all that it has said, when it has ended."""
        return self._process.wait(timeout), self._log.read_text(), ""


def folder_environment(folder):
    """Makes an environment of this Python and a folder into which the plug-in is installed."""
    install_plugin(folder)
    path = os.pathsep.join([str(folder), str(ROOT)])
    ofcl = (sys.executable, "-c", "from ofcl.cli.main import main; main()")
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return Environment((sys.executable,), ofcl, variables)


def install_plugin(folder):
    """Builds and installs the plug-in; it lies in this folder then."""
    source = shutil.copytree(PLUGIN, folder / "source")  # it is built there
    install = ["pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", folder]
    subprocess.run([sys.executable, "-m", *install, source], check=True)
    return folder


def fresh_environment(folder, extra="flower", also=(PLUGIN,)):
    """Makes a virtual environment with the package, an extra and more, installed by pip.

    `also` are folders of packages. What the package needs comes from the registry, under the
    versions of `constraints.txt`.
    """
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    bin = folder / ("Scripts" if os.name == "nt" else "bin")
    foreign = ("PYTHON", "VIRTUAL_ENV")  # what would let another environment's packages in
    variables = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    made = Environment((bin / "python",), (bin / "ofcl",), {**variables, "OMP_NUM_THREADS": "1"})
    with tempfile.TemporaryDirectory() as sources:
        package = Path(sources) / "package"
        package.mkdir()
        shutil.copytree(ROOT / "ofcl", package / "ofcl")
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, package)
        others = [shutil.copytree(other, Path(sources) / other.name) for other in also]
        pip = [*made.python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
        for what in (f"{package}[{extra}]", *others):
            subprocess.run([*pip, what], check=True, cwd=sources, env=made.variables)
    return made
