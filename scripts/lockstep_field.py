"""Compares the losses and choices of the field's methods with their authors' code, case by case.

    python scripts/lockstep_field.py PATH_OF_MAMMOTH PATH_OF_ONLINE_CONTINUAL_LEARNING

The first is a clone of github.com/aimagelab/mammoth (DER++, iCaRL, LwF, EWC), the second of
github.com/RaptorMai/online-continual-learning (SCR, MIR). Both get the same small network, samples
and draws, in double precision. Nothing of the repositories is copied: their modules are imported
from the paths; what these import without need is replaced by stand-ins. Each line shows the largest
difference of a loss or a gradient, or whether the same samples were chosen.
"""

import argparse
import importlib
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ofcl.memory.herding import herd
from ofcl.memory.memory import Memory
from ofcl.memory.policy import Policy, random_key
from ofcl.memory.store import LOGITS
from ofcl.methods.additions import Step
from ofcl.methods.field.der import DarkExperience
from ofcl.methods.field.ewc import ElasticWeights, Importance
from ofcl.methods.field.icarl import binary_cross_entropy
from ofcl.methods.field.lwf import softened_cross_entropy
from ofcl.methods.field.mir import Interference
from ofcl.methods.losses import Contrast, cross_entropy, members
from ofcl.models.mlp import MLP
from ofcl.seeds import generator

CLASSES, PAST, FEATURES, NEW = 6, 4, 8, 5


class Stand(nn.Module):
    """Stands in for mammoth's base class of methods: a network, a loss and no training loop."""

    def __init__(self, backbone=None, loss=None, args=None, transform=None, dataset=None):
        super().__init__()
        self.net, self.loss, self.args, self.transform = backbone, loss, args, transform
        self.device, self.opt = torch.device("cpu"), MagicMock()
        self.num_classes, self.n_tasks, self.cpt = CLASSES, 3, 2


def imported(path, name, **stand_ins):
    """Imports a module from a path, with stand-ins for what it imports.

    Args:
        path: The folder of the repository.
        name: The name of the module.
        stand_ins: Attributes of modules; in their names, `__` stands for a dot.
    """
    roots = ("models", "utils", "backbone", "datasets", "agents")
    for known in [m for m in sys.modules if m.split(".")[0] in roots]:
        del sys.modules[known]
    for module, attributes in stand_ins.items():
        sys.modules[module.replace("__", ".")] = MagicMock(**attributes)
    sys.path.insert(0, path)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(path)


def network(seed=0):
    """Makes a small network in double precision, whose weights depend on the seed alone."""
    model = MLP(FEATURES, 7, CLASSES).double()
    draw = generator(seed, "lockstep")
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=draw, dtype=torch.double) * 0.5)
    return model


def samples(n, seed=1, classes=range(CLASSES)):
    """Draws n samples and their classes."""
    draw = generator(seed, "samples")
    x = torch.randn(n, FEATURES, generator=draw, dtype=torch.double)
    return x, torch.tensor(list(classes))[torch.arange(n) % len(list(classes))]


def gradients(loss, model):
    """Lists the gradients of the parameters that learn."""
    return torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad])


def largest(ours, theirs):
    """Finds the largest difference between two lists of tensors."""
    return max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))


def show(what, difference):
    """Prints a line, and remembers what differs."""
    good = difference is True or (difference is not False and difference < 1e-9)
    text = "the same" if difference is True else f"{difference}"
    print(f"{what:50} {text:>22}  {'ok' if good else 'DIFFERS'}")
    return good


def compare_der(path):
    """Compares DER++'s gradients after one mini-batch with two replayed lots."""
    stands = {"models__utils__continual_model": {"ContinualModel": Stand}}
    released = imported(path, "models.derpp", **stands, utils__args={}, utils__buffer={})
    (x, y), (old, old_y) = samples(NEW), samples(2 * NEW, seed=2)
    kept = torch.randn(NEW, CLASSES, dtype=torch.double, generator=generator(3, "kept"))
    theirs = network()
    model = released.Derpp(theirs, F.cross_entropy, SimpleNamespace(
        buffer_size=9, alpha=0.3, beta=0.7, minibatch_size=NEW), None)  # fmt: skip
    lots = iter([(old[:NEW], None, kept), (old[NEW:], old_y[NEW:], None)])
    model.buffer = SimpleNamespace(is_empty=lambda: False, get_data=lambda *a, **k: next(lots),
                                   add_data=lambda **given: None)  # fmt: skip
    model.observe(x, y, x)
    ours, draws = network(), generator(0, "memory")
    memory = Memory(2 * NEW, Policy(random_key(draws), balanced=False), draws)
    memory.update(old, old_y, 0)
    memory.attach({LOGITS: torch.cat([kept, kept])})
    order = memory.samples.id.argsort()  # the places of the lots, in their order
    both = torch.cat([x, old])
    features = ours.features(both)
    step = Step(both, features, ours.head(features).unsqueeze(0), torch.cat([y, old_y]), NEW,
                members(range(CLASSES), CLASSES), order, is_first=True)  # fmt: skip
    dark = DarkExperience(memory, cross_entropy, 0.3, 0.7)
    found = gradients(dark.objective(step), ours)
    return show("DER++: gradients", largest(found, [p.grad for p in theirs.parameters()]))


def compare_lwf(path):
    """Compares LwF's gradients of a mini-batch with the teacher's logits."""
    stands = {"models__utils__continual_model": {"ContinualModel": Stand}}
    released = imported(path, "models.lwf", **stands, utils__args={})
    x, y = samples(NEW)
    taught = network(5)(x).detach()
    theirs, ours = network(), network()
    model = released.Lwf(theirs, F.cross_entropy, SimpleNamespace(alpha=0.5, softmax_temp=2), None)
    model.n_seen_classes, model.n_past_classes = CLASSES, PAST
    model.observe(x, y, x, logits=taught)
    logits = ours(x)
    known = members(range(PAST), CLASSES)
    loss = F.cross_entropy(logits, y) + 0.5 * softened_cross_entropy(logits, taught, known)
    return show("LwF: gradients",
                largest(gradients(loss, ours), [p.grad for p in theirs.parameters()]))  # fmt: skip


def compare_icarl(path):
    """Compares iCaRL's loss, and the samples that herding chooses."""
    stands = {"models__utils__continual_model": {"ContinualModel": Stand}}
    released = imported(path, "models.icarl", **stands, utils__args={}, utils__buffer={},
                        utils__batch_norm={}, datasets={}, utils__conf={},
                        kornia={}, kornia__augmentation={}, utils__augmentations={},
                        torchvision={}, torchvision__transforms={})  # fmt: skip
    x, y = samples(NEW)
    taught, ours = network(5)(x).detach(), network()
    eye = torch.eye(CLASSES, dtype=torch.double)
    fake = SimpleNamespace(net=ours, eye=eye, n_past_classes=PAST)
    theirs = released.ICarl.get_loss(fake, x, y, 1, taught.sigmoid())
    known, met = members(range(PAST), CLASSES), members(range(CLASSES), CLASSES)
    loss = binary_cross_entropy(ours(x), y, taught, known, met)
    good = show("iCaRL: loss (theirs is a mean over the classes)",
                abs(float(loss - CLASSES * theirs)))  # fmt: skip
    return compare_herding(path) and good


def compare_herding(path):
    """Compares the samples of a class that herding chooses."""
    released = imported(path, "utils.buffer", datasets={}, backbone={}, utils__augmentations={},
                        utils__reservoir={}, datasets__utils__continual_dataset={})  # fmt: skip
    x, _ = samples(40)
    chosen, net = [], network()
    caller = MagicMock(training=False, device=torch.device("cpu"), classifier=net.head)
    caller.side_effect = lambda given, returnt=None: net.features(given)
    buffer = MagicMock(used_attributes=["examples", "labels"], num_seen_examples=9)
    buffer.__len__.return_value = 0
    buffer.add_data = lambda examples, labels, **more: chosen.append(examples)
    y = torch.zeros(40, dtype=torch.long)

    class Loader(list):
        """The samples in one mini-batch, with the dataset that they are from."""

        dataset = SimpleNamespace(targets=y, data=x)

    dataset = SimpleNamespace(train_loader=Loader([(x, y, x)]), N_CLASSES_PER_TASK=1,
                              args=SimpleNamespace(buffer_size=9),
                              get_normalization_transform=lambda: None)  # fmt: skip
    with torch.no_grad():
        wanted = ["examples", "labels"]
        released.fill_buffer(buffer, dataset, 0, net=caller, use_herding=True,
                             normalize_features=True, required_attributes=wanted)  # fmt: skip
        z = F.normalize(net.features(x))
    theirs = sorted((x == each).all(1).nonzero().item() for each in torch.cat(chosen).split(1))
    ours = np.flatnonzero(herd(np.ones(40), (1 - z @ z.T).numpy(), 9)).tolist()
    return show("iCaRL: nine of forty samples by herding", ours == theirs)


def compare_ewc(path):
    """Compares the gradient of EWC's penalty, given the same importance and anchor."""
    stands = {"models__utils__continual_model": {"ContinualModel": Stand}}
    released = imported(path, "models.ewc_on", **stands, utils__args={})
    ours = network()
    ours.add_module("companion", Importance(ours))
    elastic = ElasticWeights(ours, 2 * 0.7, 1e9, "task")
    gradient = [torch.full_like(p, 0.3) for p in ours.parameters()]
    elastic.before_steps(1, members([0], CLASSES))
    elastic.adjust(gradient, True)
    elastic.end_task()
    elastic.before_steps(1, members([0], CLASSES))
    anchor = torch.cat([p.detach().flatten().clone() for p in ours.parameters()])
    with torch.no_grad():
        for p in ours.parameters():
            p.add_(0.25)
    flat = torch.cat([p.detach().flatten() for p in ours.parameters()])
    fake = SimpleNamespace(args=SimpleNamespace(e_lambda=0.7), fish=torch.full_like(flat, 0.09),
                           checkpoint=anchor,
                           net=SimpleNamespace(get_params=lambda: flat))  # fmt: skip
    theirs = released.EwcOn.get_penalty_grads(fake)
    found = elastic.adjust([torch.zeros_like(p) for p in ours.parameters()], False)
    return show("EWC: gradient of the penalty (their λ is half)",
                largest([torch.cat([g.flatten() for g in found])], [theirs]))  # fmt: skip


def compare_scr(path):
    """Compares the supervised contrastive loss of two views."""
    released = imported(path, "utils.loss")
    draw = generator(7, "views")
    z = torch.randn(NEW, 2, 16, generator=draw, dtype=torch.double)
    y = torch.tensor([0, 1, 0, 2, 1])
    theirs = released.SupConLoss(temperature=0.07)(F.normalize(z, dim=-1), y)
    ours = Contrast(1.0, 0.07)(z.transpose(0, 1).flatten(0, 1), y.repeat(2))
    return show("SCR: loss of two views", abs(float(ours - theirs)))


def compare_mir(path):
    """Compares the candidates that a virtual step hurts most."""
    stands = {"utils__utils": {}, "utils__buffer__buffer_utils": {}}
    released = imported(path, "utils.buffer.mir_retrieve", **stands)
    (x, y), (old, old_y) = samples(NEW), samples(30, seed=2)
    theirs, ours = network(), network()
    F.cross_entropy(theirs(x), y).backward()
    released.random_retrieve = lambda buffer, n: (old, old_y)
    released.get_grad_vector = lambda parameters, dims: torch.cat(
        [p.grad.flatten() for p in parameters()]
    )
    fake = SimpleNamespace(subsample=30, eps_mem_batch=6, learning_rate=0.1)
    chosen, _ = released.MIR_retrieve(fake).retrieve(SimpleNamespace(model=theirs))
    places = Interference(ours, 0.1)(torch.cat([x, old]), torch.cat([y, old_y]), NEW, 6)
    return show("MIR: six of thirty candidates, in order", bool(torch.equal(old[places], chosen)))


def main():
    """Compares all methods; ends with 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mammoth", help="path of a clone of aimagelab/mammoth")
    parser.add_argument("online", help="path of a clone of RaptorMai/online-continual-learning")
    paths = parser.parse_args()
    results = [
        *(
            compare(paths.mammoth)
            for compare in (compare_der, compare_lwf, compare_icarl, compare_ewc)
        ),
        *(compare(paths.online) for compare in (compare_scr, compare_mir)),
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
