import pytest
import torch

from ofcl.models import SlimResNet18
from ofcl.models.norm import in_parts


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("n", [1, 5])
def test_parts_of_a_batch_are_normalised_as_if_each_came_alone(parts, n):
    torch.manual_seed(0)
    model = SlimResNet18(3, 4, width=2).to(memory_format=torch.channels_last).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    x = torch.randn(parts, n, 3, 16, 16)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.no_grad(), in_parts(model, parts):
        together = model(x.flatten(0, 1)).unflatten(0, (parts, n))
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name])
    with torch.no_grad():
        alone = torch.stack([model(part) for part in x])
    assert torch.allclose(together, alone, atol=1e-5)
    changed = [not torch.equal(buffer, before[name]) for name, buffer in model.named_buffers()]
    assert any(changed)  # by the forwards without parts
