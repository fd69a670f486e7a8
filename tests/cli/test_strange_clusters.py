"""Somebody's run directory names a cluster: it is not called."""

import pytest

from ofcl import OfclError, Run, make_settings
from ofcl.engines.flower import simulation


def test_a_cluster_is_not_called_because_a_run_directory_names_it(tmp_path, monkeypatch):
    small = {"protocol": "sound", "dataset": "digits", "clients": 2, "tasks": 1, "model": "mlp",
             "hidden": 4, "limit": 2, "method": "er", "memory": 20}  # fmt: skip
    run = Run(make_settings(small), out=tmp_path / "run")
    next(iter(run))
    file = tmp_path / "run" / "settings.toml"
    text = file.read_text().replace('engine = "local"', 'engine = "flower-sim"')
    assert "flower-sim" in text
    file.write_text(f'ray = "192.0.2.1:6379"\n{text}')
    called = []
    monkeypatch.setattr(simulation, "_backend", lambda ray: called.append(ray) or {})
    del run
    with pytest.raises(OfclError, match="name a Ray cluster, '192.0.2.1:6379'.*--ray local"):
        Run.resume(tmp_path / "run")
    assert called == []
