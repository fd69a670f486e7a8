"""Models that are served to several tests, each in a process of its own."""

import re
import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import ofcl
from tests.conftest import TINY, TINY_IMAGES, make_blobs, make_images
from tests.support.browsers import chromium
from tests.support.commands import Command

EVIL = '<img src=x onerror="document.title=1">'


class Served:
    """A service that runs: its process and its address."""

    def __init__(self, command, address):
        self.command, self.address = command, address

    def client(self, **how):
        return httpx.Client(base_url=self.address, timeout=20, trust_env=False, **how)

    def memory(self):
        """The most memory that it has had, in MiB."""
        status = Path(f"/proc/{self.command.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


@contextmanager
def served(model, *options):
    """Serves a model on a free port until the context ends; then it must end by itself."""
    command = Command("serve", model, "--port", 0, *options)
    out = command._outputs[0]
    try:
        for _ in range(600):
            if out.exists() and "/ (Ctrl-C" in out.read_text():
                break
            assert command.running, command.wait()
            time.sleep(0.05)
        yield Served(command, re.search(r"https?://\S+:\d+", out.read_text())[0])
    finally:
        command.send(signal.SIGTERM)
    code, _, said = command.wait(20)
    assert (code, said.strip().splitlines()[-1]) == (0, "ended"), said


@pytest.fixture(scope="session")
def image_model(tmp_path_factory):
    """A model of images of 8 × 8; one of its labels is HTML."""
    out = tmp_path_factory.mktemp("served") / "images"
    data = make_images()
    ofcl.run(replace(data, labels=(EVIL, *data.labels[1:])), out=out, **TINY_IMAGES)
    return out


@pytest.fixture(scope="session")
def vector_model(tmp_path_factory):
    """A model of vectors of 8 numbers."""
    out = tmp_path_factory.mktemp("served") / "vectors"
    ofcl.run(make_blobs(), out=out, **TINY)
    return out


@pytest.fixture(scope="session")
def table_model(tmp_path_factory):
    """A model of a table with the columns a and b."""
    folder = tmp_path_factory.mktemp("served")
    rows = [f"{n % 4 + n / 1000},{-(n % 4)},kind {n % 4}" for n in range(160)]
    (folder / "learned.csv").write_text("\n".join(["a,b,label", *rows]))
    settings = {**TINY, "tasks": 2, "dataset": str(folder / "learned.csv"), "label": "label"}
    ofcl.run(out=folder / "run", **settings)
    return folder / "run"


@pytest.fixture(scope="session")
def images_served(image_model):
    with served(image_model) as service:
        yield service


@pytest.fixture(scope="session")
def table_served(table_model):
    with served(table_model) as service:
        yield service


@pytest.fixture(scope="session")
def small_served(vector_model):
    """A service of vectors that allows little: 64 KiB, 20 samples, 1 second."""
    little = ("--max-body", 1 / 16, "--max-samples", 20, "--seconds", 1)
    with served(vector_model, *little) as service:
        yield service


TOKEN = "a-token-of-enough-letters"


@pytest.fixture(scope="session")
def token_served(vector_model, tmp_path_factory):
    """A service that asks for a token."""
    file = tmp_path_factory.mktemp("served") / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    with served(vector_model, "--token-file", file) as service:
        yield service


@pytest.fixture(scope="module")  # no longer: it occupies the thread's event loop
def browser():
    with chromium() as opened:
        yield opened
