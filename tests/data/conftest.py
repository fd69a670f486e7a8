"""A reader of data in a test's own folder."""

import pytest

from ofcl import Reading, load_dataset


@pytest.fixture
def read(tmp_path):
    """Reads data of the test's folder."""
    return lambda path, **how: load_dataset(str(path), Reading(root=tmp_path / "root", **how))
