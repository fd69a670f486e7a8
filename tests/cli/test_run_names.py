"""Names of run directories that nobody has chosen."""

from ofcl import make_settings
from ofcl.cli.run_names import default_out


def test_parts_of_ones_own_give_names_that_any_system_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = make_settings({"dataset": "mine.data:load", "method": "mine.methods:METHOD"})
    name = default_out(settings).name
    assert not set('<>:"/\\|?*') & set(name)
    assert name.startswith("mine-mine.methods-METHOD-seed0-")


def test_a_name_that_is_taken_gets_a_number(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda _: "now")
    settings = make_settings({"dataset": "my photos", "method": "er"})
    for wanted in ("my photos-er-seed0-now", "my photos-er-seed0-now-1"):
        found = default_out(settings)
        assert found.name == wanted
        found.mkdir(parents=True)
