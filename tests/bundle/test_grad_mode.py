"""A model leaves PyTorch's gradients switched on, also while samples are still to come."""

import numpy as np
import torch

import ofcl


def test_gradients_are_on_for_whoever_takes_a_batch(run_of_vectors):
    model = ofcl.load(run_of_vectors)
    samples = np.zeros((3, *model.description.samples.shape))
    batches = model._inputs(samples, lambda starts, words: starts)
    assert not next(batches).requires_grad
    assert torch.is_grad_enabled()
