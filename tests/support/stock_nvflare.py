"""Stock NVFlare on this machine, over TLS: a server, sites, an administrator, as processes."""

import json
import os
import shutil
import signal
import subprocess
import time

import psutil

from tests.support.deployment import free_port
from tests.support.environments import ROOT, Program
from tests.support.federation import send_exactly

JOB = ROOT / "examples" / "nvflare_app" / "job"
SUBMIT = ROOT / "examples" / "nvflare_app" / "submit.py"
ALLOWED = "ofcl.federation.nvflare_app."
SERVER, USER = "localhost", "organiser@trial.org"
PATIENCE = 240.0  # seconds for anything to happen
PROJECT = {
    "api_version": 3, "name": "trial", "description": "trial",
    "builders": [
        {"path": "nvflare.lighter.impl.workspace.WorkspaceBuilder",
         "args": {"template_file": ["master_template.yml"]}},
        {"path": "nvflare.lighter.impl.static_file.StaticFileBuilder",
         "args": {"config_folder": "config"}},
        {"path": "nvflare.lighter.impl.cert.CertBuilder"},
        {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
    ],
}  # fmt: skip


class StockNVFlare:
    """Processes by name; what each of them says is in a file of its name.

    Args:
        folder: Where all of it is.
        environment: A Python with NVFlare and ofcl (`tests.support.environments`).
        sites: The names of the sites; each has `digits` and learns its share.
    """

    def __init__(self, folder, environment, sites):
        self.folder, self.sites, self.processes = folder, sites, {}
        self._python = environment.python[0]
        bin = str(self._python.parent)
        path = os.pathsep.join([bin, environment.variables.get("PATH", "")])
        self._variables = {**environment.variables, "PATH": path, "HOME": str(folder)}
        port = free_port()
        participants = [
            {"name": SERVER, "type": "server", "org": "trial", "fed_learn_port": port,
             "admin_port": port},
            *({"name": site, "type": "client", "org": "trial"} for site in sites),
            {"name": USER, "type": "admin", "org": "trial", "role": "project_admin"},
        ]  # fmt: skip
        project = folder / "project.yml"  # JSON is YAML
        project.write_text(json.dumps({**PROJECT, "participants": participants}))
        command = [f"{bin}/nvflare", "provision", "-p", project, "-w", folder / "made", "--force"]
        subprocess.run(command, check=True, env=self._variables, cwd=folder, capture_output=True)
        self.kits = folder / "made" / "trial" / "prod_00"
        for who in (SERVER, *sites):
            self._settle(self.kits / who)
        for site in sites:
            send_exactly(self.kits / site / "ofcl")
            (self.kits / site / "local" / "ofcl.toml").write_text(
                'dataset = "digits"\nshare = true'
            )

    def _settle(self, kit):
        """Does what the people of a site do once: they allow the two classes of ofcl."""
        usual = (kit / "local" / "resources.json.default").read_text()
        resources = json.loads(usual.replace("/tmp/nvflare", str(kit / "storage")))
        resources["class_allow_list"].append(ALLOWED)
        (kit / "local" / "resources.json").write_text(json.dumps(resources))

    def start(self, *names):
        """Starts the server, or sites."""
        for name in names:
            command = ["bash", self.kits / name / "startup" / "sub_start.sh", "--once"]
            log = self.folder / f"{name}.log"
            self.processes[name] = Program(command, self.folder, self._variables, log)

    def job(self, out, settings):
        """Writes a job: the example's, with another directory and settings."""
        job = shutil.copytree(JOB, out.parent / "job")
        path = job / "app" / "config" / "config_fed_server.json"
        config = json.loads(path.read_text())
        config["workflows"][0]["args"] = {
            "parties": ",".join(self.sites), "out": str(out), "settings": settings
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return job

    def submit(self, job):
        """Starts the example's script, which submits the job until its run is over."""
        sites = ",".join(self.sites)
        command = [self._python, SUBMIT, job, "--kit", self.kits / USER, "--user", USER,
                   "--sites", sites]  # fmt: skip
        log = self.folder / "submit.log"
        self.processes["submit"] = Program(command, self.folder, self._variables, log)

    def kill(self, name, number=signal.SIGKILL):
        """Ends a process and those that it has started, its jobs too, by a signal."""
        program = self.processes.pop(name)
        for process in [psutil.Process(program.pid), *self.below(name, program)]:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        program.wait()

    def below(self, name, program=None):
        """Lists the processes that a process has started: those of its jobs."""
        program = program or self.processes[name]
        return psutil.Process(program.pid).children(recursive=True)

    def finish(self, name):
        """Waits until a process ends by itself; gives its exit code."""
        code, _, _ = self.processes[name].wait(PATIENCE)
        del self.processes[name]  # only now: one that does not end is stopped with the others
        return code

    def wait_for(self, condition, what):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"{what}\n{self.told()}"
            time.sleep(0.05)

    def told(self):
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)

    def stop(self):
        for name in reversed(list(self.processes)):
            if self.processes[name].running:
                self.kill(name)
