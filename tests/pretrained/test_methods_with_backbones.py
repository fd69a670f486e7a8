"""Methods with a pretrained model: checkpoints have no frozen tensor, and runs are resumed."""

import importlib.util
from pathlib import Path

import pytest
import torch

from ofcl import Run, make_settings
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.events import Round
from ofcl.methods import METHODS
from ofcl.methods.accompanied import Accompanied
from ofcl.pretrained.referred import referred
from ofcl.state import flatten
from tests.pretrained.test_adapters import images, settings, tiny
from tests.support.remote import assert_same

if any(importlib.util.find_spec(name) is None for name in ("timm", "peft")):
    pytest.skip("needs timm and peft", allow_module_level=True)

__all__ = ["tiny"]

QUICK = {"burn_in": 1, "q": 1, "limit": 3, "synthetic": 2, "generator_steps": 1,
         "fitting_epochs": 2, "min_clients": 2}  # fmt: skip


def frozen_in(state, model):
    """The tensors of a state that a model refers to, as they are called there."""
    known = tuple(referred(model))
    return [name for name in flatten(state)[0] if name.endswith(known)]


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"fedcil"}))  # it has its own model
def test_a_method_saves_only_what_learns_and_goes_on_from_it(
    tiny: str, tmp_path: Path, method: str
) -> None:
    made = make_settings(settings(tiny, **QUICK, tune="last:1", method=method))
    whole, broken = Run(made, images()), Run(made, images(), tmp_path / "run")
    list(whole)
    assert whole.result().rounds >= 1  # gdumb has one
    for client in whole.participants.clients:
        assert referred(client.model)
        assert not frozen_in(client.state(), client.model)
        assert not frozen_in(whole.server.state(), client.model)
    for event in broken:
        if isinstance(event, Round):
            break
    broken._lock.close()
    resumed = Run.resume(tmp_path / "run", dataset=images())
    list(resumed)
    assert_same(resumed.server.model, whole.server.model)


def test_a_learner_beside_another_saves_only_what_learns(tiny: str) -> None:
    made = make_settings(settings(tiny, **QUICK, tune="head"))

    def pair() -> Accompanied:
        one, other = (client.learner for client in dataset_participants(made, images()).clients)
        return Accompanied(one, other)

    first, again = pair(), pair()
    with torch.no_grad():
        first.model_alone.head.bias += 1
    assert not frozen_in(first.state(), first.model_alone)
    again.load_state(first.state())
    assert_same(again.model_alone.state_dict(), first.model_alone.state_dict())
