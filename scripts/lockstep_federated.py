"""Compares the losses of TARGET and GLFC with their authors' code, case by case.

    python scripts/lockstep_federated.py PATH_OF_TARGET PATH_OF_GLFC

The first is a clone of github.com/zj-jayzhang/Federated-Class-Continual-Learning, the second of
github.com/conditionWang/FCIL. Both get the same numbers, in double precision. Nothing of the
repositories is copied: their modules are imported from the paths; what these import without need is
replaced by stand-ins, and `.cuda` does nothing. Each line shows the largest difference.
"""

import importlib
import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import torch
import torch._dynamo  # looks for packages that are replaced below, so it comes first
from torch import nn

from ofcl.methods.federated.glfc_losses import compensation_loss, mean_entropy, relation_loss
from ofcl.methods.generative import target_losses
from ofcl.methods.generative.batchnorm_inputs import watched_inputs

STOOD_IN_FOR = (
    "wandb", "kornia", "torchvision", "torchvision.transforms", "PIL", "matplotlib",
    "matplotlib.pyplot", "tqdm", "models", "models.base", "utils", "utils.inc_net",
    "utils.data_manager", "iCIFAR100",
)  # fmt: skip
N, CLASSES, OLD = 7, 6, 4


def import_released(folder: str, name: str) -> ModuleType:
    """Imports a module of the authors.

    Args:
        folder: The folder with the module.
        name: Its name.
    """
    for stood_in in STOOD_IN_FOR:
        sys.modules[stood_in] = MagicMock()
    sys.modules["models.base"].BaseLearner = nn.Module
    sys.path.insert(0, folder)
    return importlib.import_module(name)


def tell(what: str, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Prints how far two numbers or tensors are apart.

    Args:
        what: A few words about them.
        ours: Ours.
        theirs: The authors'.
    """
    print(f"{what}: {(ours - theirs).abs().max().item():.1e} apart", flush=True)


def compare_target(released: ModuleType) -> None:
    """Compares TARGET's losses of images, student and client.

    Args:
        released: The authors' module.
    """
    teacher, student = torch.randn(2, N, CLASSES)
    tell("TARGET, client's distillation", target_losses.distillation_loss(student, teacher),
         released._KD_loss(student, teacher, 2))  # fmt: skip
    tell("TARGET, student", target_losses.student_loss(student, teacher),
         released.KLDiv(T=released.T)(student, teacher))  # fmt: skip
    same = (student.argmax(1) == teacher.argmax(1)).double()
    each = released.kldiv(student, teacher, reduction="none").sum(1)
    tell(
        "TARGET, adversary",
        target_losses.adversary_loss(student, teacher),
        -(each * same).mean(),
    )
    layer = nn.BatchNorm2d(3).eval()
    layer.running_mean, layer.running_var = torch.randn(3), torch.rand(3) + 0.5
    hook = released.DeepInversionHook(layer, released.bn_mmt)
    earlier: target_losses.Statistics = []
    for lot in range(3):
        with watched_inputs(layer) as inputs:
            layer(torch.randn(8, 3, 5, 5))
        ours = target_losses.statistics_distance(inputs, earlier)
        tell(f"TARGET, statistics of lot {lot + 1}", ours, hook.r_feature)
        hook.update_mmt()
        earlier = target_losses.averaged(inputs, earlier)
    weights = (released.oh, released.bn, released.adv)
    print("TARGET, weights of label, statistics, adversary: theirs", weights, "ours",
          (target_losses.LABEL, target_losses.STATISTICS, target_losses.ADVERSARY))  # fmt: skip


def compare_glfc(released: ModuleType) -> None:
    """Compares GLFC's loss, its gradient and the entropy.

    Args:
        released: The authors' module.
    """
    old = torch.arange(CLASSES) < OLD
    seen = torch.ones(CLASSES, dtype=torch.bool)
    y = torch.arange(N) % CLASSES
    logits, old_logits = torch.randn(N, CLASSES, requires_grad=True), torch.randn(N, OLD)
    wide = torch.cat([old_logits, torch.zeros(N, CLASSES - OLD)], 1)
    ours = {
        "first task": compensation_loss(logits, y, ~seen, seen),
        "later": 0.5 * compensation_loss(logits, y, old, seen)
        + 0.5 * relation_loss(logits, y, wide, old, seen),
    }
    for what, loss in ours.items():
        client = SimpleNamespace(
            model=lambda images: logits, numclass=CLASSES, device="cpu",
            old_model=None if what == "first task" else lambda images: old_logits,
            learned_classes=[] if what == "first task" else list(range(OLD)),
        )  # fmt: skip
        model = released.GLFC_model
        client.efficient_old_class_weight = lambda output, label, client=client: (
            released.GLFC_model.efficient_old_class_weight(client, output, label)
        )
        theirs = CLASSES * model._compute_loss(client, None, None, y)  # a mean over the classes
        tell(f"GLFC, loss, {what}", loss, theirs)
        ((of_ours,), (of_theirs,)) = (torch.autograd.grad(v, [logits]) for v in (loss, theirs))
        tell(f"GLFC, gradient, {what}", of_ours, of_theirs)
    theirs = released.entropy(logits.softmax(1)).mean()
    tell("GLFC, entropy (theirs adds 1e-5 in the logarithm)", mean_entropy(logits), theirs)


def main(target: str, glfc: str) -> None:
    """Compares both methods.

    Args:
        target: The path of TARGET's repository.
        glfc: The path of GLFC's repository.
    """
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)  # a script of its own: nothing else draws
    torch.Tensor.cuda = lambda self, device=None: self  # type: ignore[method-assign]
    compare_target(import_released(f"{target}/methods", "target"))
    compare_glfc(import_released(f"{glfc}/src", "GLFC"))


if __name__ == "__main__":
    main(*sys.argv[1:])
