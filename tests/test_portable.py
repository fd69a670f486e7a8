"""The package where POSIX is not: nothing that Windows lacks is needed to import it and to run."""

import ast
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ofcl
from ofcl import JsonLines, OfclError
from ofcl.assembly.resolve import find_device
from ofcl.compute.devices import to_device, wide
from ofcl.data.options import Reading
from ofcl.inference.service import uploaded_tables
from ofcl.storage import atomic_files, locks, private_files
from tests.support import without_posix

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tests" / "support" / "without_posix.py"


def test_libraries_are_told_to_report_nothing():
    asked = {name: os.environ[name] for name in ("HF_HUB_DISABLE_TELEMETRY",
             "MLFLOW_DISABLE_TELEMETRY", "WANDB_ERROR_REPORTING")}  # fmt: skip
    assert list(asked.values()) == ["1", "true", "false"]


def test_the_citation_names_the_version():
    assert f"\nversion: {ofcl.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def at_import(tree):
    """The statements that run when a module is imported: those outside of functions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from at_import(node)


def test_no_module_imports_what_windows_lacks():
    found = []
    for path in sorted((ROOT / "ofcl").rglob("*.py")):
        for node in at_import(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                names = {node.attr} if node.value.id in ("os", "signal") else set()
                names &= {*without_posix.CALLS, *without_posix.SIGNALS}
                found += [(path.name, name) for name in names]
                continue
            else:
                continue
            found += [(path.name, name) for name in names & without_posix.MODULES]
    assert found == []


def test_a_run_without_posix(tmp_path):
    arguments = ["run", "--dataset", "digits", "--model", "mlp", "--clients", "2",
                 "--limit", "2", "--tasks", "2", "--out", "run", "-q"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 0 <= json.loads((tmp_path / "run" / "result.json").read_text())["A"] <= 100


def test_a_lock_is_held_by_one_and_freed(tmp_path):
    first = locks.try_lock(tmp_path / "lock")
    assert locks.try_lock(tmp_path / "lock") is None
    first.close()
    with locks.wait_for_lock(tmp_path / "lock"):
        assert locks.try_lock(tmp_path / "lock") is None


@pytest.mark.skipif(os.name == "nt", reason="links need rights there that tests do not have")
@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_a_lock_that_leads_to_another_file_is_refused(tmp_path, kind):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    if kind == "hard":
        (tmp_path / "lock").hardlink_to(victim)
    else:
        (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(OfclError, match="is a link"):
        locks.try_lock(tmp_path / "lock")
    assert victim.read_text() == "precious"


@pytest.mark.skipif(os.name == "nt", reason="modes mean nothing there")
def test_on_windows_nobody_is_told_that_a_key_is_private(tmp_path, monkeypatch, caplog):
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o644)
    assert private_files.others_can_read(key)
    monkeypatch.setattr(private_files, "WINDOWS", True)
    monkeypatch.setattr(logging.getLogger("ofcl"), "propagate", True)  # a command may have set it
    assert not private_files.others_can_read(key)
    assert "is not checked on Windows" in caplog.text


def test_on_windows_folders_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "WINDOWS", True)
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda path, *how: opened.append(path) or real(path, *how))
    (tmp_path / "file").write_bytes(b"")
    opened.clear()
    atomic_files.sync(tmp_path)
    assert opened == []
    atomic_files.sync(tmp_path / "file")
    assert opened == [tmp_path / "file"]


def test_on_windows_a_pipe_is_refused_and_a_file_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.data.live.json_lines.WINDOWS", True)
    read, write = os.pipe()
    with open(read, "rb") as pipe, pytest.raises(OfclError, match="watch:FOLDER"):
        JsonLines(pipe, Reading())
    os.close(write)
    (tmp_path / "lines").touch()
    with (tmp_path / "lines").open("rb") as file:
        assert JsonLines(file, Reading()).rereads


def test_parquet_is_refused_where_memory_cannot_be_limited(monkeypatch):
    monkeypatch.setattr(uploaded_tables.sys, "platform", "darwin")
    with pytest.raises(OfclError, match="only Linux can limit the memory"):
        list(uploaded_tables._parquet(b"", ("x",), 1))


def test_the_gpu_of_a_mac(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(OfclError, match="'mps' is not there; it is the GPU of a Mac"):
        find_device("mps")
    with pytest.raises(OfclError, match="use auto, cpu, cuda, cuda:N or mps"):
        find_device("meta")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("mps") == torch.device("mps")
    assert find_device("auto").type != "mps"


def test_an_apple_gpu_gets_no_numbers_of_64_bits(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *how, **more: asked.append((*how, more)))
    to_device(torch.zeros(2, dtype=torch.float64), torch.device("mps"))
    to_device(torch.zeros(2, dtype=torch.long), torch.device("mps"))
    assert asked == [
        (torch.device("mps"), torch.float32, {}),
        (torch.device("mps"), torch.long, {}),
    ]
    assert wide(torch.ones(2)).dtype == torch.float64
