"""Flower's own processes, as anybody has them: a SuperLink, SuperNodes, `flwr run`."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.deployment import free_port
from tests.support.federation import send_exactly

ROOT = Path(__file__).parent.parent.parent
APP = ROOT / "examples" / "flower_app"
PATIENCE = 240.0  # seconds for anything to happen: Flower starts a process for every message


class StockFlower:
    """Processes by name; what each of them says is in a file of its name."""

    def __init__(self, folder):
        self.folder, self.processes, self.port = folder, {}, free_port()
        scripts = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }

    def spawn(self, name, *command):
        home = self.folder / f"home-{name}"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        with (self.folder / f"{name}.log").open("a") as log:
            self.processes[name] = subprocess.Popen(
                [str(part) for part in command],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._environment, "FLWR_HOME": str(home)},
                cwd=self.folder,
            )

    def superlink(self):
        self.spawn(
            "superlink", "flower-superlink", "--insecure", "--port", self.port,
            "--disable-runtime-dependency-installation",
        )  # fmt: skip
        self.wait_for(lambda: "Uvicorn running" in self.log("superlink")
                      or "Runtime API" in self.log("superlink"), "the SuperLink")  # fmt: skip

    def supernode(self, party, **config):
        send_exactly(self.folder / party)
        config = {"party": party, "folder": str(self.folder / party), **config}
        words = " ".join(k + "=" + _toml(v) for k, v in config.items())
        self.spawn(
            party, "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self.port}",
            "--port", free_port(), "--node-config", words,
        )  # fmt: skip

    def run(self, **config):
        """Submits the app; the SuperLink runs it."""
        words = " ".join(f"{name}={_toml(value)}" for name, value in config.items())
        self.spawn("submit", "flwr", "run", APP, "here", "--run-config", words)
        code = self.processes.pop("submit").wait(PATIENCE)
        assert code == 0, self.told()

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def told(self):
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)

    def wait_for(self, condition, what):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"{what}\n{self.told()}"
            time.sleep(0.2)

    def kill(self, name):
        """As kill -9 does: whatever it was doing is lost."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else f'"{value}"'
