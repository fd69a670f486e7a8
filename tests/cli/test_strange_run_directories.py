"""Somebody's run directory names a cluster or code, or has links: nothing outside is touched."""

import os

import pytest

from ofcl import OfclError, Run, make_settings
from ofcl.engines.flower import simulation

SMALL = {"protocol": "sound", "dataset": "digits", "clients": 2, "tasks": 1, "model": "mlp",
         "hidden": 4, "limit": 4, "method": "er", "memory": 20}  # fmt: skip


def test_a_cluster_is_not_called_because_a_run_directory_names_it(tmp_path, monkeypatch):
    run = Run(make_settings(SMALL), out=tmp_path / "run")
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


def test_code_that_a_run_directory_names_is_not_run(tmp_path, monkeypatch):
    run = Run(make_settings(SMALL), out=tmp_path / "run")
    next(iter(run))
    del run
    (tmp_path / "strange.py").write_text("from pathlib import Path\nPath('here').touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run" / "settings.toml"
    file.write_text(file.read_text().replace('model = "mlp"', 'model = "strange:net"'))
    with pytest.raises(OfclError, match="model = 'strange:net', which would be run here"):
        Run.resume(tmp_path / "run")
    assert not (tmp_path / "here").exists()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there that tests do not have")
@pytest.mark.parametrize(
    "name", ["events.jsonl", "checkpoint", "result.json.partial", "settings.toml"]
)
def test_links_in_a_run_directory_lead_nowhere(tmp_path, name):
    run = Run(make_settings(SMALL), out=tmp_path / "run")
    events = iter(run)
    next(events)
    run.save()
    del events, run
    place, outside = tmp_path / "run" / name, tmp_path / "outside"
    if place.exists():
        place.rename(outside)
    else:
        outside.write_text("precious")
    place.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(OfclError, match=f"{name}' is a link out of .*: the run would write"):
        for _ in Run.resume(tmp_path / "run", tell=lambda _: None):
            pass
    assert contents(outside) == before


@pytest.mark.skipif(os.name == "nt", reason="links need rights there that tests do not have")
def test_links_within_a_run_directory_do_no_harm(tmp_path):
    """Weights & Biases makes some."""
    run = Run(make_settings(SMALL), out=tmp_path / "run")
    events = iter(run)
    next(events)
    run.save()
    del events, run
    (tmp_path / "run" / "wandb" / "offline-run").mkdir(parents=True)
    (tmp_path / "run" / "wandb" / "latest-run").symlink_to("offline-run")
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None)
    for _ in resumed:
        pass
    assert resumed.result().A is not None


def contents(path):
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    return {str(file): file.read_bytes() for file in files if file.is_file()}
