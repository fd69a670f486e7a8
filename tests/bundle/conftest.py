"""A small run and its bundle, which the tests share and never change."""

import pytest

import ofcl
from ofcl.bundle.bundle_files import read_bundle
from tests.conftest import TINY, TINY_IMAGES


@pytest.fixture(scope="session")
def run_of_images(tmp_path_factory, images):
    path = tmp_path_factory.mktemp("runs") / "images"
    ofcl.run(images, out=path, **{**TINY_IMAGES, "burn_in": 0, "method": "er"})
    return path


@pytest.fixture(scope="session")
def run_of_vectors(tmp_path_factory, blobs):
    path = tmp_path_factory.mktemp("runs") / "vectors"
    ofcl.run(blobs, out=path, **{**TINY, "burn_in": 0, "method": "er"})
    return path


@pytest.fixture(scope="session")
def bundle(run_of_vectors):
    return read_bundle(run_of_vectors / "model")
