"""Capturing: what can be seen without a GPU. The rest is in test_cuda.py."""

import gc
import weakref

import pytest
import torch

from ofcl.compute.cuda_graphs import Captured, no_collection

CPU = torch.device("cpu")


def test_on_a_cpu_a_captured_function_is_the_function():
    seen = []
    captured = Captured(lambda x, y: seen.append(x) or x + y, CPU)
    x = torch.ones(2)
    for n in range(5):
        assert torch.equal(captured(x, torch.full((2,), float(n))), x + n)
    assert all(given is x for given in seen)
    captured.forget()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_and_is_left_as_it_was(enabled):
    class Circle:
        def __init__(self):
            self.itself = self

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), no_collection():
            circle = weakref.ref(Circle())
            litter = [[] for _ in range(100_000)]
            assert circle() is not None
            raise KeyError(len(litter))
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
