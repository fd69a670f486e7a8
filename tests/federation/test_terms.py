"""The labels, samples and settings that server and parties agree on."""

import json

import pytest

from ofcl import OfclError, make_settings
from ofcl.engines.messages import Request, pack_request
from ofcl.engines.rejection import Rejected
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.terms import (
    Introduction,
    Samples,
    Terms,
    agree,
    pack,
    travelling_settings,
    unpack_introduction,
)
from ofcl.settings.rules import AT_PARTY
from ofcl.version import __version__
from tests.support.federation import (
    FEDERATION,
    member,
)
from tests.support.remote import over_the_wire


@pytest.mark.parametrize("change", [
    {"party": 5}, {"labels": [5]}, {"labels": "word"}, {"labels": ["a\nb"]},
    {"labels": ["x"] * 10_001}, {"samples": {}}, {"shape": [0, 8, 8]},
    {"shape": [1, 10**5, 10**5]}, {"shape": [8, 8]}, {"shape": None}, {"kind": "sound"},
    {"way": "guess"}, {"mean": [float("nan")]}, {"std": []},
], ids=str)  # fmt: skip
def test_an_introduction_that_cannot_be_is_rejected(tmp_path, change):
    state = over_the_wire(member(tmp_path, 0).answer({}))
    assert unpack_introduction(state).party == "hospital-a"
    inside = {name: value for name, value in change.items() if name in state["samples"]}
    samples = {**state["samples"], **inside}
    with pytest.raises(Rejected):
        unpack_introduction({**state, "samples": samples, **change} if not inside else
                            {**state, "samples": samples})  # fmt: skip


def test_parties_with_other_samples_are_named(tmp_path):
    digits = member(tmp_path, 0).answer({})
    other = {**over_the_wire(digits), "party": "hospital-b"}
    other["samples"] = {**other["samples"], "shape": [1, 9, 9]}
    found = {"hospital-a": unpack_introduction(over_the_wire(digits)),
             "hospital-b": unpack_introduction(other)}  # fmt: skip
    with pytest.raises(OfclError, match=r"hospital-b has other samples than hospital-a: shape"):
        agree(found)


def test_settings_that_travel_name_no_path_and_nothing_that_a_party_decides():
    settings = make_settings({"dataset": "/home/x", "data_root": "/srv", "device": "cpu"})
    travelling = travelling_settings(settings)
    assert not set(AT_PARTY) & set(travelling)
    assert "/home" not in json.dumps(travelling)
    with pytest.raises(OfclError, match="dataset is decided by each party"):
        run_settings(FEDERATION, {"dataset": "digits"})
    with pytest.raises(OfclError, match="method is decided for all parties"):
        open_source({"dataset": "digits", "method": "er"}, False, print)


def test_a_form_packs_and_unpacks(tmp_path):
    source = open_source({"dataset": "digits"}, True, lambda _: None)
    assert Samples.of(source._dataset, "dataset") == source.samples()
    introduction = unpack_introduction(over_the_wire(member(tmp_path, 2, source).answer({})))
    assert pack(introduction)["party"] == "hospital-c"
    assert introduction.samples == source.samples()
    assert introduction.labels == tuple("0123456789")


def test_a_party_of_another_version_is_refused_by_the_server_and_refuses_it(tmp_path):
    source = open_source({"dataset": "digits"}, True, lambda _: None)
    said = over_the_wire(pack(Introduction("a", source.labels, source.samples(), "0.1.7")))
    with pytest.raises(Rejected, match="it runs ofcl '0.1.7' and this server"):
        unpack_introduction(said)
    assert unpack_introduction({**said, "version": __version__}).version == __version__
    del said["version"]  # of the time before versions were told
    assert unpack_introduction(said).version == ""
    party = member(tmp_path, 0, source)
    terms = Terms({}, 3, source.labels, 10, source.samples(), version="9.0.0")
    request = pack_request(Request("ab", 1, (), {}))
    with pytest.raises(OfclError, match="the server runs ofcl '9.0.0' and this party"):
        party.answer({"request": request, "terms": pack(terms)})
