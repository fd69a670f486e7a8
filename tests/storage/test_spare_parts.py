"""Tensors that never change are written once, and a checkpoint can do without them."""

import torch

from ofcl.state import Spare
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint


def saved(folder, part, number):
    state = {"model": {"w": torch.full((3,), float(number))}, "earlier": [part]}
    save_checkpoint(folder, Checkpoint(number, 0.0, state))


def files(folder):
    return sorted(folder.glob("*/spare-*"))


def test_checkpoints_share_the_file_of_a_part_that_has_not_changed(tmp_path):
    part = Spare({"w": torch.arange(3.0)})
    for number in (1, 2, 3):
        saved(tmp_path, part, number)
    assert len(files(tmp_path)) == 2
    assert len({file.stat().st_ino for file in files(tmp_path)}) == 1
    found = load_checkpoint(tmp_path, print).state
    assert torch.equal(found["earlier"][0]["w"], torch.arange(3.0))
    assert torch.equal(found["model"]["w"], torch.full((3,), 3.0))
    saved(tmp_path, Spare({"w": torch.ones(3)}), 4)
    assert len({file.stat().st_ino for file in files(tmp_path)}) == 2


def test_a_damaged_part_is_left_out(tmp_path):
    saved(tmp_path, Spare({"w": torch.arange(3.0)}), 1)
    files(tmp_path)[0].write_bytes(b"no tensors")
    found = load_checkpoint(tmp_path, print).state
    assert found["earlier"] == [{}]
    assert torch.equal(found["model"]["w"], torch.ones(3))
