"""Small data and settings that the tests share."""

import functools
import http.server
import os
import threading

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of this process and of all that tests start

import pytest
import torch
from hypothesis import settings

from ofcl import Dataset
from ofcl.testing.data import TINY, TINY_IMAGES, make_blobs, make_images

__all__ = ["TINY", "TINY_IMAGES", "make_blobs", "make_images"]

settings.register_profile("ofcl", deadline=None, max_examples=50)
settings.load_profile("ofcl")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Two test processes share two cores; small tensors are fastest on one."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk():
    """Only a power cut would show whether files are on the disk, and no test has one.

    Files are as complete for other processes, killed ones included.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def blobs() -> Dataset:
    return make_blobs()


@pytest.fixture(scope="session")
def images() -> Dataset:
    return make_images()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def http_server():
    """Serves folders over HTTP on this machine; gives the address of each."""
    servers = []

    def serve(folder) -> str:
        handler = functools.partial(QuietHandler, directory=folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()
