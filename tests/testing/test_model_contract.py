"""The contract of a model, with models that break it."""

import numpy as np
import pytest
import torch
from torch import nn

from ofcl.models import ModelSize
from ofcl.testing import ContractBroken, check_model


class Small(nn.Module):
    """A model that keeps its contract; the others break one promise each."""

    def __init__(self, size):
        super().__init__()
        self.hidden = nn.Linear(int(np.prod(size.shape)), 4)
        self.head = nn.Linear(4, size.classes)

    def features(self, x):
        return self.hidden(x.flatten(1)).relu()

    def forward(self, x):
        return self.head(self.features(x))


class WithoutHead(Small):
    def __init__(self, size):
        super().__init__(size)
        self.last = self.head
        del self.head

    def forward(self, x):
        return self.last(self.features(x))


class WithoutBias(Small):
    def __init__(self, size):
        super().__init__(size)
        self.head = nn.Linear(4, size.classes, bias=False)


class OneOutputMore(Small):
    def __init__(self, size):
        super().__init__(size)
        self.head = nn.Linear(4, size.classes + 1)


class GivesFeatures(Small):
    def forward(self, x):
        return self.features(x)


class NotANumber(Small):
    def forward(self, x):
        return super().forward(x) / 0


class AcrossTheBatch(Small):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class WithDropout(Small):
    def features(self, x):
        return nn.functional.dropout(super().features(x), 0.5, self.training)


class ChangesItsInput(Small):
    def forward(self, x):
        return super().forward(x.mul_(0.5))


class Counts(Small):
    def __init__(self, size):
        super().__init__(size)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class StartsAnywhere(Small):
    started = 0

    def __init__(self, size):
        super().__init__(size)
        StartsAnywhere.started += 1
        with torch.no_grad():
            self.head.bias += StartsAnywhere.started


class StartsTheSame(Small):
    def __init__(self, size):
        super().__init__(size)
        for parameter in self.parameters():
            nn.init.constant_(parameter, 0.1)


class StartsByNumpy(Small):
    def __init__(self, size):
        super().__init__(size)
        nn.init.constant_(self.head.bias, np.random.rand())


class CannotLearn(Small):
    def forward(self, x):
        return super().forward(x).detach() + self.hidden.bias.sum()


class KeepsAScaleToItself(Small):
    def __init__(self, size):
        super().__init__(size)
        self.scale = self.head.weight[0, 0].item()

    def forward(self, x):
        return self.scale * super().forward(x)


class CountsItsOutputs(Small):
    def __init__(self, size):
        super().__init__(size)
        self.classes = size.classes

    def forward(self, x):
        return super().forward(x)[:, : self.classes]


class SumsOverOutputs(Small):
    def forward(self, x):
        return super().forward(x) - super().forward(x).mean(1, keepdim=True)


class CannotBeCopied(Small):
    def __deepcopy__(self, memo):
        return Small(ModelSize((1, 8, 8), self.head.out_features))


BROKEN = {
    WithoutHead: "as its `head`, over the classes; it has None",
    WithoutBias: "an nn.Linear with a bias",
    OneOutputMore: "an output for each of the 3 classes; it has 4",
    GivesFeatures: "logits .n, classes.: of .4, 1, 8, 8. came .4, 4.",
    NotANumber: "logits of a new model are finite",
    AcrossTheBatch: "do not depend on the others in the batch",
    WithDropout: "generator of torch",
    ChangesItsInput: "do not depend|must not change the samples",
    Counts: "must not change its own state",
    StartsAnywhere: "the same seed builds the same model; .*head.bias",
    StartsTheSame: "another seed builds another model",
    StartsByNumpy: "generator of numpy",
    CannotLearn: "the head gets a gradient",
    KeepsAScaleToItself: "comes back whole from its state_dict",
    CountsItsOutputs: "gives logits for 5 classes; they came as .4, 3.",
    SumsOverOutputs: "new outputs leave the old ones",
    CannotBeCopied: "a copy of a model",
}


def test_a_model_that_keeps_it_passes():
    check_model(Small)
    check_model(Small, ModelSize((6,), classes=2))


@pytest.mark.parametrize("model", BROKEN, ids=lambda model: model.__name__)
def test_a_broken_model_is_caught(model):
    with torch.random.fork_rng(), pytest.raises(ContractBroken, match=BROKEN[model]):
        check_model(model)
