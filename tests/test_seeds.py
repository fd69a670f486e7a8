import torch

from ofcl import seeds


def test_purposes_do_not_share_draws():
    drawn = {
        torch.rand(1, generator=seeds.generator(*key)).item()
        for key in [(0, "a"), (0, "b"), (1, "a"), (0, "a", 0), (0, "a", 1)]
    }
    assert len(drawn) == 5


def test_private_leaves_the_global_generator_as_it_was():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with seeds.private(0, "model"):
        first = torch.rand(2)
    with seeds.private(0, "model"):
        assert torch.equal(torch.rand(2), first)
    assert torch.equal(torch.rand(2), expected)
