"""Small data and settings that the tests share."""

import functools
import http.server
import threading

import pytest
import torch
from hypothesis import settings

from ofcl import Dataset
from ofcl.seeds import generator

settings.register_profile("ofcl", deadline=None, max_examples=50)
settings.load_profile("ofcl")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Two test processes share two cores; small tensors are fastest on one."""
    torch.set_num_threads(1)


def make_blobs(classes=6, train=40, test=10, features=8, seed=0) -> Dataset:
    """Vectors around one centre for each class: learnable, and gone in a moment."""
    draw = generator(seed, "blobs")
    centres = torch.randn(classes, features, generator=draw) * 2

    def part(n):
        y = torch.arange(classes).repeat_interleave(n)
        return centres[y] + 0.3 * torch.randn(len(y), features, generator=draw), y

    (x_train, y_train), (x_test, y_test) = part(train), part(test)
    labels = tuple(f"class {c}" for c in range(classes))
    return Dataset("blobs", "vector", x_train, y_train, x_test, y_test, labels)


def make_images(classes=4, train=24, test=6, side=8, channels=1, seed=0) -> Dataset:
    """Images with a bright square at a place that depends on the class."""
    draw = generator(seed, "images")

    def part(n):
        y = torch.arange(classes).repeat_interleave(n)
        x = torch.randint(0, 80, (len(y), channels, side, side), generator=draw)
        for i, c in enumerate(y.tolist()):
            row, column = divmod(c, 2)
            x[i, :, row * 4 : row * 4 + 4, column * 4 : column * 4 + 4] += 150
        return x.to(torch.uint8), y

    (x_train, y_train), (x_test, y_test) = part(train), part(test)
    labels = tuple(f"place {c}" for c in range(classes))
    mean, std = (0.3,) * channels, (0.25,) * channels
    return Dataset("images", "image", x_train, y_train, x_test, y_test, labels, mean, std)


@pytest.fixture(scope="session")
def blobs() -> Dataset:
    return make_blobs()


@pytest.fixture(scope="session")
def images() -> Dataset:
    return make_images()


TINY = {
    "clients": 2, "tasks": 3, "batch_size": 5, "memory": 12, "burn_in": 3, "q": 2, "hidden": 16,
    "steps": 2,
}  # fmt: skip
"""Settings for `blobs`: a run of a fraction of a second with several rounds in each task."""

TINY_IMAGES = {**TINY, "tasks": 2, "width": 2, "burn_in": 2, "lr": 0.02}
"""The same for `images`."""


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
