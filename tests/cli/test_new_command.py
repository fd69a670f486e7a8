"""`ofcl new` writes a package whose own test passes."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ofcl import OfclError
from ofcl.cli.main import app


@pytest.mark.parametrize("kind", ["method", "model"])
def test_the_new_package_passes_its_test(tmp_path, kind, monkeypatch):
    folder = tmp_path / "new"
    assert CliRunner().invoke(app, ["new", kind, "my-part", "--out", str(folder)]).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "ofcl_my_part.py", "pyproject.toml", "test_my_part.py",
    ]  # fmt: skip
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_part.py"]
    done = subprocess.run(test, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["metod", "a"], "unknown kind of part"), (["method", "1a"], "cannot be the name")],
)
def test_what_it_refuses(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, ["new", *arguments])
    assert isinstance(outcome.exception, OfclError)
    assert message in str(outcome.exception)
