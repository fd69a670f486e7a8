"""The contracts of random changes, each with changes that break it."""

from dataclasses import dataclass

import pytest
import torch

from ofcl.testing import ContractBroken, check_change, check_perturbation
from ofcl.uncertainty.change import Change, Perturbation
from ofcl.uncertainty.perturbations import NoisyCopies


class Noise(Change):
    """A change that keeps its contract; the others break one promise each."""

    def draw(self, shape, generator):
        return torch.randn(1, *shape, generator=generator)

    def apply(self, x, draws):
        return x + draws[0]


class DrawsFromTheGlobalGenerator(Noise):
    def draw(self, shape, generator):
        return torch.randn(1, *shape)


class DrawsSamplesFirst(Noise):
    def draw(self, shape, generator):
        return torch.randn(*shape, generator=generator)

    def apply(self, x, draws):
        return x + draws


class DrawsElsewhere(Noise):
    def draw(self, shape, generator):
        return torch.empty(1, *shape, device="meta")


class DrawsOnItsOwn(Noise):
    def __init__(self):
        self.calls = 0

    def draw(self, shape, generator):
        self.calls += 1
        return super().draw(shape, generator) + self.calls


class DrawsOthersAhead(Noise):
    def draw_many(self, shape, generator, times):
        return torch.randn(1, times, *shape, generator=generator).transpose(0, 1) + 1


class DrawsTooMuchAhead(Noise):
    def draw_many(self, shape, generator, times):
        drawn = super().draw_many(shape, generator, times)
        self.draw(shape, generator)
        return drawn


class ChangesItsInput(Noise):
    def apply(self, x, draws):
        return x.add_(draws[0])


class ChangesTheDraws(Noise):
    def apply(self, x, draws):
        return x + draws.mul_(2)[0]


class HasAMemory(Noise):
    def __init__(self):
        self.calls = 0

    def apply(self, x, draws):
        self.calls += 1
        return x + self.calls * draws[0]


class AppliesRandomly(Noise):
    def apply(self, x, draws):
        return x + draws[0] * torch.rand(1)


class MixesSamples(Noise):
    def apply(self, x, draws):
        return x + draws[0] * torch.arange(len(x)).view(-1, 1, 1, 1)


class BreaksNumbers(Noise):
    def apply(self, x, draws):
        return x / 0 * draws[0]


class MakesCopies(Noise):
    def apply(self, x, draws):
        return x + draws


BROKEN = {
    DrawsFromTheGlobalGenerator: "the drawn numbers depend on the generator alone",
    DrawsSamplesFirst: "dimension 1 of the drawn numbers is that of the 4 samples",
    DrawsElsewhere: "numbers are drawn on the CPU",
    DrawsOnItsOwn: "the drawn numbers depend on the generator alone",
    DrawsOthersAhead: "draw_many gives what draw gives",
    DrawsTooMuchAhead: "draw_many leaves the generator",
    ChangesItsInput: "apply must not change",
    ChangesTheDraws: "apply must not change",
    HasAMemory: "apply is a function",
    AppliesRandomly: "apply is a function",
    MixesSamples: "a sample is changed by its own numbers alone",
    BreaksNumbers: "changed samples are finite",
    MakesCopies: "as many samples of the same shape",
}


def test_a_change_that_keeps_it_passes():
    check_change(Noise())
    check_change(Noise(), shape=(3,))


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change.__name__)
def test_a_broken_change_is_caught(change):
    with pytest.raises(ContractBroken, match=BROKEN[change]):
        check_change(change())


def test_a_change_is_no_perturbation():
    with pytest.raises(ContractBroken, match="makes copies .views, n, …. of each sample"):
        check_perturbation(Noise())


@dataclass(frozen=True)
class CopiesBySize(Perturbation):
    """As many copies as there are samples."""

    def draw(self, shape, generator):
        return torch.randn(shape[0], *shape, generator=generator)

    def apply(self, x, draws):
        return x + draws


class CopiesOutOfPlace(NoisyCopies):
    def apply(self, x, draws):
        return super().apply(x, draws.flip(1))


@pytest.mark.parametrize(
    ("perturbation", "message"),
    [
        (CopiesBySize(), "a sample is changed by its own numbers|as many copies of one sample"),
        (CopiesOutOfPlace(), "a sample is changed by its own numbers alone"),
    ],
)
def test_a_broken_perturbation_is_caught(perturbation, message):
    with pytest.raises(ContractBroken, match=message):
        check_perturbation(perturbation)
