"""The demo: four runs, a table of them, and what to do next."""

import sys
from pathlib import Path

from ofcl.cli import demo_command


def test_four_methods_are_run_and_compared(tmp_path, monkeypatch, capsys):
    short = {"dataset": "digits", "model": "mlp", "clients": 2, "tasks": 2, "limit": 2}
    monkeypatch.setattr(demo_command.settings_files, "preset", lambda name: short)
    demo_command.demo(tmp_path, quiet=True)
    shown = capsys.readouterr().out
    for method in ("none", "er", "cbr", "bi"):
        assert (tmp_path / method / "result.json").is_file()
        assert f"\n{method} " in shown
    assert f"ofcl evaluate {tmp_path / 'cbr'}\n" in shown  # a page would need an extra


def test_how_to_call_ofcl_is_said_where_the_shell_does_not_know_it(monkeypatch):
    monkeypatch.setattr(demo_command.shutil, "which", lambda name: None)
    assert demo_command._first() == f" (with {Path(sys.executable).parent} on the path)"
    monkeypatch.setattr(demo_command.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert demo_command._first() == ""
