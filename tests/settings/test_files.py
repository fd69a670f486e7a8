"""Settings files and presets."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofcl import OfclError, Settings, make_settings
from ofcl.settings.files import PROTOCOLS, load_settings, parse_override, preset, presets, to_toml


def test_sound_is_the_default_of_every_setting_it_names():
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    named = {name: value for name, value in preset("sound").items() if name != "protocol"}
    assert {name: defaults[name] for name in named} == named


def test_both_protocols_name_the_same_settings():
    assert preset("sound").keys() == preset("published").keys()


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_valid(name):
    assert make_settings(load_settings(name), {}).protocol in PROTOCOLS


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dataset", ["crc-tissue", "kc-cell", "yahoo", "cifar10"])
def test_a_protocol_by_its_file_is_the_protocol_by_its_name(protocol, dataset):
    by_name = make_settings({"protocol": protocol, "dataset": dataset})
    assert make_settings(load_settings(protocol), {"dataset": dataset}) == by_name


def test_overrides_are_toml_or_text():
    assert parse_override("loss=ace") == ("loss", "ace")
    assert parse_override("augment=false") == ("augment", False)
    assert parse_override("batch-size=20") == ("batch_size", 20)
    with pytest.raises(OfclError, match="write it as key=value"):
        parse_override("loss")


text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)


values = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False,
    allow_infinity=False) | text | st.lists(text, max_size=3)  # fmt: skip


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, max_size=5))
def test_toml_that_is_written_reads_back(table):
    assert tomllib.loads(to_toml({**table, "made_with": table})) == {**table, "made_with": table}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "method": st.sampled_from(["none", "er", "cbr", "bi"]),
            "memory": st.integers(1, 10**6),
            "lr": st.floats(1e-6, 10),
            "limit": st.integers(1, 99),
            "alpha": st.floats(0.01, 100),
            "augment": st.booleans(),
            "protocol": st.sampled_from(["sound", "published"]),
            "perturbations": st.lists(st.sampled_from(["hflip", "3", "all"]), min_size=1).map(
                tuple
            ),
        },
    )
)
def test_settings_survive_a_file(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("settings") / "settings.toml"
    settings = make_settings(values)
    path.write_text(to_toml({"version": 1, **settings.model_dump()}), encoding="utf-8")
    assert make_settings(load_settings(path)) == settings


def test_files_that_cannot_be_settings(tmp_path):
    with pytest.raises(OfclError, match="no settings file 'nowhere.toml'"):
        load_settings("nowhere.toml")
    other = tmp_path / "other.toml"
    other.write_text("version = 99\nq = 5\n")
    with pytest.raises(OfclError, match="of version 99; this ofcl reads version 1"):
        load_settings(other)
    other.write_text("q = = 5\n")
    with pytest.raises(OfclError, match="is not valid TOML"):
        load_settings(other)
    other.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OfclError, match="cannot be read"):
        load_settings(other)
