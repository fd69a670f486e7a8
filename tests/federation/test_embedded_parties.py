"""Parties that embed images: one scaling for all, the same weights, a server's model of images."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import ofcl
from ofcl import OfclError
from ofcl.data.dataset import Dataset
from ofcl.engines.rejection import Rejected
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.terms import Introduction, Samples, agree, pack, unpack_introduction
from tests.support.embedded_images import SMALL, pictures, weights_file, write_arrays, write_files
from tests.support.federation import PARTIES, InProcess, hosted, member

pytestmark = [
    pytest.mark.skipif(find_spec("timm") is None, reason="needs timm"),
    pytest.mark.xdist_group("timm"),
]

RUN = {**SMALL, "min_clients": 2, "closing_round": "end", "model": "mlp"}
del RUN["window"]  # each party has its own


@pytest.fixture(scope="module")
def name(tmp_path_factory):
    """The name of an embedder whose weights are in a file."""
    return weights_file(tmp_path_factory.mktemp("weights") / "net.safetensors")


def source_of(folder, number, name, stream=False):
    """A party's images: other ones than those of the others, and another number of them."""
    (folder / str(number)).mkdir()
    if stream:
        data = f"watch:{write_files(folder / str(number) / 'ward', 32, number)}"
    else:
        data = str(write_arrays(folder / str(number) / "data.npz", 40 + 8 * number, seed=number))
    cache = name.partition("@")[2].removesuffix("/net.safetensors")  # one for all tests
    values = {"dataset": data, "embedder": name, "data_root": cache, "window": 10}
    return open_source(values | ({"idle": 0.2} if stream else {}), False, lambda _: None)


def learned_by(tmp_path, sources, settings=RUN):
    """A run between these parties, when it is over, and what the server has said."""
    parties = {k: member(tmp_path, k, source) for k, source in enumerate(sources)}
    run, said = hosted(tmp_path, InProcess(parties), settings, out=tmp_path / "run")
    for _ in run:
        pass
    return run, said


@pytest.mark.parametrize("features", ["standardised", "unit"])
def test_parties_scale_alike_and_all_models_take_images(tmp_path, name, features):
    sources = [source_of(tmp_path, k, name) for k in range(3)]
    run, _ = learned_by(tmp_path, sources, {**RUN, "features": features})
    assert run.result().rounds
    x, y = pictures(24, 7)
    models = [ofcl.load(tmp_path / who, embedder=name) for who in (*PARTIES, "run")]
    forms = [model.description.samples for model in models]
    assert len({(form.feature_mean, form.feature_scale) for form in forms}) == 1
    plain = np.concatenate([source._dataset.x_train for source in sources])  # of length 1
    if features == "standardised":
        mean = np.mean(plain, axis=0, dtype=np.float64)
        np.testing.assert_allclose(forms[0].feature_mean, mean, atol=1e-6)
        assert (models[-1].predict(x) == y.astype(str)).mean() > 0.5
    else:
        assert forms[0].feature_mean == ()
    answers = [model.predict_proba(x) for model in models]
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=1e-5)


def test_streams_of_parties_are_embedded(tmp_path, name):
    run, _ = learned_by(tmp_path, [source_of(tmp_path, k, name, stream=True) for k in range(3)],
                        {k: v for k, v in RUN.items() if k != "tasks"})  # fmt: skip
    assert run.result().rounds
    x, _ = pictures(8, 7)
    models = [ofcl.load(tmp_path / who, embedder=name) for who in (*PARTIES, "run")]
    forms = [model.description.samples for model in models]
    assert len(forms[0].feature_mean) == 256
    assert len({(form.feature_mean, form.feature_scale) for form in forms}) == 1
    assert set(models[0].predict(x)) <= set("0123")


def test_a_party_with_other_weights_is_left_out_and_told_why(tmp_path, name):
    other = weights_file(tmp_path / "other" / "net.safetensors", 1)
    sources = [source_of(tmp_path, k, name if k < 2 else other) for k in range(3)]
    run, said = learned_by(tmp_path, sources)
    assert run.result().rounds
    (line,) = [line for line in said if "the run is without" in line]
    assert line.startswith("hospital-c has other samples than hospital-a, hospital-b: embedder ")
    assert line.count("(checksum ") == 2
    assert str(tmp_path) not in line
    two = zip("bc", sources[1:], strict=True)
    named = {who: Introduction(who, ("0",), source.samples()) for who, source in two}
    with pytest.raises(OfclError, match="embedder .*checksum"):
        agree(named)


def test_an_embedder_that_is_not_as_its_checksum_says_is_rejected(tmp_path, name):
    said = Introduction("a", ("0",), source_of(tmp_path, 0, name).samples())
    assert unpack_introduction(plain(said)).samples == said.samples
    images = said.samples.images
    for change, message in [
        ({"embedder": replace(images.embedder, weights="0" * 64)}, "checksum"),
        ({"embedder": None}, "no embedder"),
        ({"shape": (2, 8, 8)}, "cannot be"),
        ({"feature_mean": (0.0,)}, "cannot be"),
        ({"std": (2.0, 1.0, 1.0)}, "normalised before"),
    ]:
        lie = replace(said, samples=replace(said.samples, images=replace(images, **change)))
        with pytest.raises(Rejected, match=message):
            unpack_introduction(plain(lie))
    state = plain(said)
    state["samples"]["images"]["embedder"]["side"] = "large"
    with pytest.raises(Rejected, match="wrong at 'embedder.side'"):
        unpack_introduction(state)


def plain(said):
    """An introduction as it arrives: lists instead of tuples."""
    state = pack(said)
    return state | {"labels": list(state["labels"])}


def test_statistics_that_may_not_leave_are_not_needed(tmp_path, name):
    """Then vectors keep length 1, as nobody knows a scaling for all."""
    source = source_of(tmp_path, 0, name)
    told = source.samples()
    hidden = replace(told, mean=(), std=(), count=0)
    agreed = agree({k: Introduction(k, ("0",), hidden) for k in "ab"})
    assert agreed.samples.mean == ()
    some = agree({"a": Introduction("a", ("0",), told), "b": Introduction("b", ("0",), hidden)})
    assert some.samples.mean == told.mean
    assert isinstance(told, Samples)
    assert isinstance(source._dataset, Dataset)
