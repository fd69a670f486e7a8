import torch

from ofcl.models.mlp import MLP, StackedLinear


def test_the_stacked_layer_and_its_gradients():
    x, weight, bias = torch.randn(3, 5, 4), torch.randn(3, 2, 4), torch.randn(3, 2)
    given = [tensor.double().requires_grad_() for tensor in (x, weight, bias)]
    assert torch.autograd.gradcheck(StackedLinear.apply, given)
    models = [MLP(4, 6, 2) for _ in range(3)]
    stacked = {
        name: torch.stack([model.get_parameter(name) for model in models])
        for name, _ in models[0].named_parameters()
    }
    logits = MLP.stacked(stacked, x)
    for k, model in enumerate(models):
        assert torch.allclose(logits[k], model(x[k]), atol=1e-6)
    gradient = torch.autograd.grad(logits.sum(), stacked["hidden.weight"])[0]
    assert gradient.is_contiguous()  # a fused optimiser wants it so
