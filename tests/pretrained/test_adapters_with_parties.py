"""Adapters between parties: masked, noised, coded, in no hurry, killed; images, texts, streams."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import ofcl
from ofcl import Run, make_settings
from ofcl.data.live import watched_folder
from ofcl.events import Learned, Round
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.server_side.stage import FederationStage
from tests.pretrained.test_adapters import SIDE, TUNES, images, settings, tiny
from tests.pretrained.test_text_models import encoder
from tests.support.embedded_images import write_files
from tests.support.federation import FEDERATION, PARTIES, SMALL, InProcess, hosted, locally, member
from tests.support.remote import assert_same
from tests.support.secure_federation import Phases, secure_member
from tests.support.tiny_encoder import LABELS, write_texts

if any(importlib.util.find_spec(name) is None for name in ("timm", "peft", "transformers")):
    pytest.skip("needs timm, peft and transformers", allow_module_level=True)

__all__ = ["encoder", "tiny"]

RUN = {**SMALL, "method": "er", "memory": 12, "tasks": 1, "burn_in": 0, "q": 2, "limit": 4,
       "steps": 1, "backbone_side": SIDE}  # fmt: skip


def rarely(value):
    """A case that is tried by `make test-long` alone: another of its kind is tried always."""
    return pytest.param(value, marks=pytest.mark.long)


def source(model: str, dataset: str = "digits", **values: object):
    name, _, weights = model.partition("@")
    here = {"dataset": dataset, "weights": weights, "allow": name, **values}
    return open_source(here, dataset == "digits", lambda _: None)


def learned(folder: Path, make_source, values, masked: bool = False):
    """A run between three parties that is over, its events, and what the server has said."""
    make, transport = (secure_member, Phases) if masked else (member, InProcess)
    parties = {k: make(folder, k, source=make_source(k)) for k in range(3)}
    reached = transport(folder) if masked else transport(parties)
    reached.members = parties
    run, said = hosted(folder, reached, {**values, "secure_aggregation": masked},
                       out=folder / "run")  # fmt: skip
    return run, list(run), said


def rounds_of(events) -> int:
    return sum(isinstance(event, Round) for event in events)


@pytest.mark.parametrize("compress", [rarely("none"), "int8", rarely("topk:0.1")])
def test_killed_parties_and_a_killed_server_go_on_with_the_adapters_of_one_process(
    tiny: str, tmp_path: Path, compress: str
) -> None:
    values = {**RUN, "model": tiny, "compress": compress, "limit": 6}
    transport = InProcess({k: member(tmp_path, k, source(tiny)) for k in range(3)})
    run, _ = hosted(tmp_path, transport, values, out=tmp_path / "run")
    for event in run:
        if isinstance(event, Round):
            for k in range(3):  # only its files are left of a party
                transport.members[k] = member(tmp_path, k, source(tiny))
                transport.processes[k] += 1
            if event.round == 2:
                break
    run.engine.close()
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    list(resumed)
    _, server = locally(**values)
    assert server.round == 3
    assert_same(resumed.server.model, server.model)


@pytest.mark.parametrize("tune", ["lora", *(rarely(t) for t in TUNES if t != "lora")])
def test_masked_adapters_are_averaged_as_plain_ones(tiny: str, tmp_path: Path, tune: str) -> None:
    values = {**RUN, "model": tiny, "tune": tune}
    masked, events, said = learned(tmp_path, lambda _: source(tiny), values, masked=True)
    _, server = locally(**values)
    assert rounds_of(events) == server.round == 2
    assert masked.server.model.keys() == server.model.keys()
    for name, value in server.model.items():
        torch.testing.assert_close(masked.server.model[name], value, atol=1e-5, rtol=0)
    assert not [line for line in said if "rejected" in line or "left out" in line]


@pytest.mark.parametrize("masked", [rarely(False), True])
def test_adapters_of_parties_are_private(tiny: str, tmp_path: Path, masked: bool) -> None:
    values = {**RUN, "model": tiny, "dp_clip": 1.0, "dp_noise": 2.0}
    run, events, _ = learned(tmp_path, lambda _: source(tiny), values, masked=masked)
    assert rounds_of(events) == 2
    assert run.epsilon() > 0
    names = set(run.server.model)
    assert any("lora_" in name for name in names)
    assert not any("base_layer" in name or "running" in name for name in names)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_clipping_and_noise_are_of_what_learns_alone(tiny: str, noise: float) -> None:
    """The length that counts is that of the adapters; nothing frozen moves."""
    plain = make_settings(
        settings(tiny, tasks=1, limit=2, burn_in=1, q=1, dp_clip=1e-3, dp_noise=noise)
    )
    run = Run(plain, images())
    start = {name: value.clone() for name, value in run.server.model.items()}
    frozen = {name: value.clone() for name, value in run.clients[0].model.state_dict().items()
              if name not in start and name != "dice"}  # fmt: skip
    next(event for event in run if isinstance(event, Round))
    moved = [(run.server.model[name] - value).flatten() for name, value in start.items()]
    length = float(torch.cat(moved).norm())
    if noise:  # of the mean of two clients, in every number that learns
        assert length == pytest.approx(1e-3 * (sum(map(len, moved)) / 2) ** 0.5, rel=0.05)
    else:
        assert 0 < length <= 1e-3 * 1.001
    assert len(frozen) > len(start) / 2
    for name, value in run.clients[0].model.state_dict().items():
        assert name not in frozen or torch.equal(value, frozen[name]), name
    run.close()


def test_buffered_rounds_of_adapters_are_stopped_and_gone_on_with(
    tiny: str, tmp_path: Path
) -> None:
    values = settings(tiny, clients=3, rounds="buffered", buffer=1, speeds=[1, 2, 3], q=1,
                      tasks=1, burn_in=0, min_clients=1, compress="int8")  # fmt: skip
    whole, broken = (Run(make_settings(values), images(), tmp_path / n) for n in ("a", "b"))
    list(whole)
    events = iter(broken)
    while broken.server.round < 3:
        next(events)
    broken.save()
    events.close()
    resumed = Run.resume(tmp_path / "b", dataset=images())
    list(resumed)
    assert resumed.server.round == whole.server.round > 4
    assert_same(resumed.server.model, whole.server.model)


def texts_of(folder: Path, encoder: str, party: int, *, stream: bool):
    table = write_texts(folder / str(party) / "texts.csv", party)
    values = {"text": "text", "label": "label", "embedder": f"tokens:{encoder}", "tokens": 6,
              "weights": encoder.removeprefix("hf:"), "allow": "hf:tiny-bert"}  # fmt: skip
    if stream:
        values |= {"dataset": f"watch:{table.parent}", "idle": 0.2}
    return open_source({"dataset": str(table), **values}, False, lambda _: None)


@pytest.mark.parametrize("stream", [rarely(False), True])
@pytest.mark.parametrize("masked", [rarely(False), True])
def test_parties_learn_an_encoder_of_texts(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool, masked: bool
) -> None:
    monkeypatch.setattr(watched_folder, "SETTLED", 0.05)
    monkeypatch.setattr(watched_folder, "LOOK", 0.05)
    values = {**RUN, "model": encoder, "backbone_side": None}
    if stream:
        values = {n: v for n, v in values.items() if n not in ("tasks", "limit")} | {"patience": 1}
    run, events, said = learned(
        tmp_path, lambda k: texts_of(tmp_path / "in", encoder, k, stream=stream), values, masked
    )
    assert rounds_of(events) >= 2
    names = set(run.server.model)
    assert any("lora_A" in name for name in names)
    assert not any("base_layer" in name or "word_embeddings" in name for name in names)
    assert not [line for line in said if "rejected" in line or "left out" in line]
    answers = [ofcl.load(tmp_path / who, embedder=encoder).predict_proba(["red red", "blue"])
               for who in (*PARTIES, "run")]  # fmt: skip
    for other in answers:
        np.testing.assert_allclose(other, answers[0], atol=1e-5)
    assert set(run.participants.labels) == set(LABELS)


@pytest.mark.parametrize("masked", [rarely(False), True])
def test_parties_learn_streams_of_images(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, masked: bool
) -> None:
    monkeypatch.setattr(watched_folder, "SETTLED", 0.05)
    monkeypatch.setattr(watched_folder, "LOOK", 0.05)
    for party in range(3):
        write_files(tmp_path / "in" / str(party), 50, party)

    def source_of(party: int):
        return source(tiny, f"watch:{tmp_path / 'in' / str(party)}", idle=0.2)

    values = {n: v for n, v in RUN.items() if n not in ("tasks", "limit")}
    values |= {"model": tiny, "patience": 1}
    run, events, said = learned(tmp_path, source_of, values, masked)
    assert sum(event.samples for event in events if isinstance(event, Learned)) == 150
    assert rounds_of(events) >= 2
    assert len(run.server.model["head.bias"]) == 4
    assert not [line for line in said if "rejected" in line or "left out" in line]
    assert ofcl.load(tmp_path / PARTIES[2], embedder=tiny).labels == run.participants.labels
