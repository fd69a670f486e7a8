import torch

from ofcl.compute.devices import Lanes, Transfer, constant, to_device

CPU = torch.device("cpu")


def test_on_a_cpu_nothing_is_on_its_way():
    assert constant((1.0, 2.0), CPU) is constant((1.0, 2.0), CPU)
    assert to_device(torch.arange(3).numpy(), CPU).tolist() == [0, 1, 2]
    assert Transfer(torch.tensor([1.5])).numpy().tolist() == [1.5]
    lanes = Lanes(CPU, [0, 1])
    with lanes.of(1):
        pass
    lanes.join()
    assert not lanes.overlap
