import subprocess
import sys

import pytest
import torch

from ofcl.compute.optimizers import SGD, Adam, descend, step_together
from ofcl.models.mlp import MLP


@pytest.mark.parametrize("each", [SGD, torch.optim.SGD])
def test_gradients_do_not_stay_with_those_that_wait(each):
    models = [MLP(4, 6, 2) for _ in range(2)]
    for model in models:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
    step_together([each(model.parameters(), lr=0.1) for model in models])
    assert all(p.grad is None for model in models for p in model.parameters())


def test_nothing_imports_the_compiler_of_pytorch():
    """It would take a second of every command."""
    code = (
        "import sys; from ofcl import Run, make_settings\n"
        "for optimizer in ('sgd', 'adam'):\n"
        "    values = {'dataset': 'digits', 'model': 'mlp', 'optimizer': optimizer}\n"
        "    run = Run(make_settings(values)); next(iter(run)); run.engine.state()\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "apart"),
    [(SGD, torch.optim.SGD, 0.0), (Adam, torch.optim.Adam, 1e-6)],
)
def test_our_optimisers_are_those_of_pytorch(ours, theirs, apart):
    models = [MLP(4, 6, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [
        make(model.parameters(), lr=0.01)
        for make, model in zip((ours, theirs), models, strict=True)
    ]
    for seed in range(20):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
        for model, optimizer in zip(models, optimizers, strict=True):
            descend(optimizer, model(x).square().mean(), list(model.parameters()))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert (one - other).abs().max() <= apart
    first, second = (optimizer.state_dict() for optimizer in optimizers)
    assert first["state"].keys() == second["state"].keys()
    for place, gathered in first["state"].items():
        assert gathered.keys() == second["state"][place].keys()
        if "step" in gathered:
            assert gathered["step"] == second["state"][place]["step"] == 20
