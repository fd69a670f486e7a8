"""Bundles as files: what is written is read again; what was damaged or is hostile is refused."""

import io
import json
import os
import random
import shutil
import stat
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

import ofcl
from ofcl.bundle.bundle_files import (
    CARD,
    DESCRIPTION,
    WEIGHTS,
    Bundle,
    bundle_contents,
    is_bundle,
    read_bundle,
    read_zip,
    write_folder,
    write_zip,
    zipped,
)
from ofcl.errors import OfclError

SPOILT = 320  # bundles, each damaged in another way


def same(one: Bundle, other: Bundle) -> bool:
    alike = one.tensors.keys() == other.tensors.keys() and all(
        torch.equal(value, other.tensors[name]) for name, value in one.tensors.items()
    )
    return alike and one.description == other.description


def files_of(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.iterdir()}


def written(path: Path, contents: dict[str, bytes]) -> Path:
    path.mkdir()
    for name, content in contents.items():
        (path / name).write_bytes(content)
    return path


def test_a_bundle_is_read_as_it_was_written(tmp_path, bundle):
    write_folder(bundle, tmp_path / "folder")
    write_zip(bundle, tmp_path / "model.zip")
    assert same(read_bundle(tmp_path / "folder"), bundle)
    assert same(read_bundle(tmp_path / "model.zip"), bundle)
    assert {p.name for p in tmp_path.iterdir()} == {"folder", "model.zip"}  # nothing partial


def test_equal_bundles_are_equal_files(tmp_path, bundle):
    assert zipped(bundle) == zipped(bundle)
    write_folder(bundle, tmp_path / "a")
    write_folder(read_bundle(tmp_path / "a"), tmp_path / "b")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_a_new_bundle_replaces_the_old_one(tmp_path, bundle):
    written(tmp_path / "model", {DESCRIPTION: b"{}", "left.txt": b"over"})
    write_folder(bundle, tmp_path / "model")
    assert set(files_of(tmp_path / "model")) == {DESCRIPTION, WEIGHTS, CARD}


def test_what_a_bundle_is(tmp_path, run_of_vectors):
    assert is_bundle(run_of_vectors / "model")
    assert not is_bundle(run_of_vectors)
    assert not is_bundle(tmp_path / "nothing")


def changed_description(contents, change):
    values = json.loads(contents[DESCRIPTION])
    change(values)
    return {**contents, DESCRIPTION: json.dumps(values).encode()}


def set_in(*path_and_value):
    *path, last, value = path_and_value

    def change(values):
        for key in path:
            values = values[key]
        values[last] = value

    return change


HOSTILE = {
    "no format": set_in("format", "zip"),
    "a later version": set_in("version", 99),
    "a version in words": set_in("version", "1"),
    "no labels": set_in("labels", []),
    "a label twice": set_in("labels", ["a", "a"]),
    "labels that are numbers": set_in("labels", [1, 2]),
    "an unknown network": set_in("network", "name", "../../evil"),
    "a network that is code": set_in("network", "name", "os:system"),
    "a huge network": set_in("network", "hidden", 10**9),
    "more than huge": set_in("network", "hidden", 10**30),
    "no outputs": set_in("network", "outputs", 0),
    "negative width": set_in("network", "width", -1),
    "an unknown kind of samples": set_in("samples", "kind", "pickle"),
    "samples without numbers": set_in("samples", "length", 0),
    "a huge sample": set_in("samples", "length", 10**12),
    "a path too much": set_in("weights", "/etc/passwd"),
    "no checksum": set_in("weights_sha256", ""),
    "another checksum": set_in("weights_sha256", "0" * 64),
    "a scale of zeros": set_in("samples", {"kind": "table", "columns": ["a"], "mean": [0.0],
                                           "scale": [0.0]}),
    "a scale of other length": set_in("samples", {"kind": "table", "columns": ["a"],
                                                  "mean": [0.0, 1.0], "scale": [1.0]}),
    "NaN as a mean": set_in("samples", {"kind": "vector", "length": 2, "mean": [float("nan"), 0.0],
                                        "scale": [1.0, 1.0]}),
    "an image of two channels": set_in("samples", {"kind": "image", "shape": [2, 8, 8],
                                                   "mean": [0.0, 0.0], "std": [1.0, 1.0]}),
    "an image of no size": set_in("samples", {"kind": "image", "shape": [1, 0, 8], "mean": [0.0],
                                              "std": [1.0]}),
    "endless noise": set_in("uncertainty", "noise_copies", 10**9),
    "an unknown classifier": set_in("classifier", "eval"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_description_is_refused(tmp_path, bundle, name):
    contents = changed_description(bundle_contents(bundle), HOSTILE[name])
    path = written(tmp_path / "model", contents)
    with pytest.raises(OfclError, match="cannot be used as a model"):
        ofcl.load(path)


def other_weights(bundle, tensors):
    """A bundle whose checksum fits, with other weights."""
    return bundle_contents(bundle._replace(tensors=tensors))


@pytest.mark.parametrize("damage", ["missing", "shape", "dtype", "nan", "more outputs"])
def test_weights_must_be_those_of_the_network(tmp_path, bundle, damage):
    tensors = dict(bundle.tensors)
    name, value = next(iter(tensors.items()))
    if damage == "missing":
        del tensors[name]
    elif damage == "shape":
        tensors[name] = value.flatten()[:-1]
    elif damage == "dtype":
        tensors[name] = value.double()
    elif damage == "nan":
        tensors[name] = value * float("nan")
    else:
        tensors["head.bias"] = torch.zeros(len(tensors["head.bias"]) + 1)
    path = written(tmp_path / "model", other_weights(bundle, tensors))
    with pytest.raises(OfclError, match="its weight"):
        ofcl.load(path)


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS])
@pytest.mark.parametrize("kind", ["missing", "link", "folder", "pipe", "huge"])
def test_only_plain_files_are_opened(tmp_path, monkeypatch, bundle, name, kind):
    path = written(tmp_path / "model", bundle_contents(bundle))
    file, outside = path / name, tmp_path / "outside"
    outside.write_bytes(file.read_bytes())
    if kind == "huge":
        monkeypatch.setattr("ofcl.bundle.bundle_files.MOST_BYTES", {DESCRIPTION: 10, WEIGHTS: 10})
    else:
        file.unlink()
    if kind == "link":
        file.symlink_to(outside)
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)  # opening it must not wait for a writer
    with pytest.raises(OfclError, match="no model|cannot be used as a model"):
        ofcl.load(path)


def test_a_zip_writes_nothing_anywhere(tmp_path, bundle):
    """Names that lead out of the folder are never used, as nothing is unpacked."""
    path = tmp_path / "inside" / "model.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../evil.txt", "gotcha")
        archive.writestr("/tmp/ofcl-evil.txt", "gotcha")
        for name, content in bundle_contents(bundle).items():
            archive.writestr(name, content)
    assert same(read_bundle(path), bundle)
    assert [p.name for p in tmp_path.rglob("*")] == ["inside", "model.zip"]
    assert not Path("/tmp/ofcl-evil.txt").exists()


def test_a_bomb_is_not_unpacked(bundle):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(DESCRIPTION, bundle_contents(bundle)[DESCRIPTION])
        archive.writestr(WEIGHTS, bytes(200 * 2**20))
    with pytest.raises(OfclError, match="would unpack to 209715200 bytes"):
        read_zip(buffer.getvalue())


def test_a_pickle_is_not_weights(tmp_path, bundle):
    contents = bundle_contents(bundle)
    buffer = io.BytesIO()
    torch.save({"head.bias": torch.zeros(2)}, buffer)
    path = written(tmp_path / "model", {**contents, WEIGHTS: buffer.getvalue()})
    with pytest.raises(OfclError, match="checksum"):
        ofcl.load(path)


def test_a_header_that_promises_too_much_is_refused(tmp_path, bundle):
    header = json.dumps({"a": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}})
    weights = struct.pack("<Q", len(header)) + header.encode() + bytes(16)
    import hashlib

    checksum = hashlib.sha256(weights).hexdigest()
    contents = changed_description(bundle_contents(bundle), set_in("weights_sha256", checksum))
    path = written(tmp_path / "model", {**contents, WEIGHTS: weights})
    with pytest.raises(OfclError, match="weights cannot be read"):
        ofcl.load(path)


def spoil(content: bytes, draw: random.Random) -> bytes:
    """Damages bytes: cuts them, turns some of them over, repeats or inserts a part."""
    at = draw.randrange(len(content))
    kind = draw.randrange(5)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]
    if kind == 2:
        return content[:at] + draw.randbytes(draw.randrange(1, 64)) + content[at:]
    if kind == 3:
        return content[:at] + content[: draw.randrange(len(content))]
    return draw.randbytes(draw.randrange(200))


@pytest.mark.parametrize("how", ["folder", "zip"])
def test_spoilt_bundles_are_refused_or_whole(tmp_path, bundle, how):
    """None is taken for another model, none runs code, none writes anything, none crashes."""
    contents, draw = bundle_contents(bundle), random.Random(how)
    whole = zipped(bundle)
    refused = 0
    for n in range(SPOILT // 2):
        path = tmp_path / f"{n}"
        if how == "zip":
            path = path.with_suffix(".zip")
            path.write_bytes(spoil(whole, draw))
        else:
            name = draw.choice([DESCRIPTION, WEIGHTS])
            written(path, {**contents, name: spoil(contents[name], draw)})
        before = sorted(p for p in tmp_path.rglob("*"))
        try:
            found = ofcl.load(path)
        except OfclError as error:
            refused += 1
            assert str(path) in str(error)
        else:  # the damage was in the card, in white space, or in the zip's own fields
            assert found.module.state_dict().keys() >= bundle.tensors.keys()
            for key, value in bundle.tensors.items():
                assert torch.equal(found.module.state_dict()[key], value)
        assert sorted(p for p in tmp_path.rglob("*")) == before
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert refused > SPOILT // 4


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS])
def test_an_unreadable_file_is_named(tmp_path, bundle, name):
    path = written(tmp_path / "model", bundle_contents(bundle))
    (path / name).chmod(0)
    if os.access(path / name, os.R_OK):  # root reads everything
        (path / name).chmod(stat.S_IRUSR)
        return
    with pytest.raises(OfclError, match=name):
        ofcl.load(path)


def test_a_sealed_bundle_needs_its_key(tmp_path, bundle):
    from ofcl.storage.encryption import Seal

    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    (tmp_path / "model.sealed").write_bytes(Seal.from_file(key).sealed(zipped(bundle)))
    assert ofcl.load(tmp_path, key_file=key).description == bundle.description
    assert b"weights" not in (tmp_path / "model.sealed").read_bytes()
    with pytest.raises(OfclError, match="--key-file"):
        ofcl.load(tmp_path)
    key.write_text("cd" * 32)
    with pytest.raises(OfclError, match="another key"):
        ofcl.load(tmp_path, key_file=key)


def test_saved_tensors_are_those_of_the_run(run_of_vectors, bundle):
    from safetensors.torch import load_file

    whole = load_file(run_of_vectors / "model.safetensors")
    assert save(whole) == save({name: bundle.tensors[name] for name in whole})


def packed(bundle, method):
    """A bundle as a zip file that somebody else has packed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in bundle_contents(bundle).items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_a_zip_that_was_packed_again_is_read_and_a_damaged_one_refused(bundle):
    content = packed(bundle, zipfile.ZIP_DEFLATED)
    assert same(read_zip(content), bundle)
    for seed in range(60):
        draw, damaged = random.Random(seed), bytearray(content)
        for _ in range(3):
            damaged[draw.randrange(40, len(content) // 2)] ^= draw.randrange(1, 256)
        with pytest.raises(OfclError):
            read_zip(bytes(damaged))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_was_packed_in_a_rare_way(bundle, method):
    with pytest.raises(OfclError, match="model.json is compressed in a rare way"):
        read_zip(packed(bundle, method))


def test_a_zip_too_large_for_a_bundle_is_not_read(tmp_path, bundle, monkeypatch):
    write_zip(bundle, tmp_path / "model.zip")
    monkeypatch.setattr("ofcl.bundle.bundle_files.MOST_BYTES", {DESCRIPTION: 50, WEIGHTS: 50})
    with pytest.raises(OfclError, match="at most 100 are read"):
        read_bundle(tmp_path / "model.zip")
