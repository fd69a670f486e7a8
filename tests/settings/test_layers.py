"""Settings from layers: what is refused, what overrides what."""

from pathlib import Path

import pytest

from ofcl import OfclError, Settings, make_settings
from ofcl.settings.files import load_settings, parse_override


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"keep": "botom"}, "unknown keep 'botom'; expected one of bottom, .*Did you mean 'bot"),
        ({"aggregation": "fedavgg"}, "unknown aggregation.*Did you mean 'fedavg'"),
        ({"protocol": "soun"}, "unknown protocol 'soun'.*Did you mean 'sound'"),
        ({"batchsize": 3}, "unknown setting 'batchsize'; did you mean batch_size"),
        ({"batch_size": 0}, "batch_size = 0: .*greater than or equal to 1"),
        ({"memory": -5}, "memory = -5"),
        ({"clients": 0}, "clients = 0"),
        ({"lr": 0}, "lr = 0"),
        ({"participation": 1.5}, "participation = 1.5"),
        ({"clients": True}, "clients = True: .*valid integer"),
        ({"alpha": float("inf")}, "alpha = inf: .*finite"),
        ({"q": "often"}, "q = 'often': .*valid integer"),
        ({"min_clients": 9}, "no round could ever happen"),
        ({"scoring_model": "current"}, "set rescore = 'every-batch'"),
    ],
)
def test_bad_values_are_refused_with_what_is_accepted(values, message):
    with pytest.raises(OfclError, match=message):
        make_settings(values)


def test_later_layers_win_and_the_protocol_lies_below_all():
    settings = make_settings({"q": 7, "protocol": "published"}, {"q": 9, "steps": 1})
    assert (settings.q, settings.steps, settings.mixing) == (9, 1, 0.5)


def test_folders_are_saved_whole(tmp_path, monkeypatch):
    """A run is resumed from any other folder."""
    monkeypatch.chdir(tmp_path)
    assert make_settings({"data_root": "mine"}).data_root == str(tmp_path / "mine")
    assert make_settings({"data_root": "~/data"}).data_root == str(Path("~/data").expanduser())
    weights = make_settings({"weights": "net.safetensors"}).weights
    assert weights == str(tmp_path / "net.safetensors")


@pytest.mark.parametrize("text", ["hflip,4", '["hflip", "4"]', '["hflip", 4]'])
def test_perturbations_are_names_and_numbers_however_they_are_written(text):
    settings = make_settings(dict([parse_override(f"perturbations={text}")]))
    assert settings.perturbations == ("hflip", "4")


def test_a_protocol_is_its_name_however_it_is_given():
    for settings in (
        Settings(protocol="published"),
        make_settings({"protocol": "published"}),
        make_settings(load_settings("published")),
    ):
        assert (settings.protocol, settings.mixing, settings.spread) == (
            "published", 0.5, "clients")  # fmt: skip
