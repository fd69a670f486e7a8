"""Runs the paper's released classes and `published` side by side, and shows how far they part.

    python scripts/lockstep.py PATH_OF_THE_AUTHORS_REPOSITORY

Both get the same initial model, mini-batches and replay draws, in double precision and without
random augmentation, so that what is left is what they compute: gradient steps, BatchNorm, rounds,
averaging, the proximal term. Nothing of the repository is copied; it is imported from PATH, and its
imports that have no part in this (data loaders, plots, torchvision) are stood in for.
"""

import argparse
import sys
from unittest.mock import MagicMock

import torch
import torch._dynamo  # looks for packages that are stood in for below, so it comes first

from ofcl import Dataset, Run, build, make_settings
from ofcl.events import Evaluated, Learned, Round
from ofcl.seeds import generator

CLIENTS, TASKS, MEMORY, LR = 2, 2, 20, 0.1
CASES = [("none", "w_favg", 1), ("er", "w_favg", 3), ("er", "favg", 3), ("er", "fprox", 3)]
STOOD_IN_FOR = (
    "medmnist", "keras", "keras.datasets", "datasets", "matplotlib", "matplotlib.pyplot", "tqdm",
    "torchvision", "torchvision.models", "torchvision.transforms", "transformers",
)  # fmt: skip
AGGREGATIONS = {"w_favg": "weighted", "favg": "fedavg", "fprox": "fedprox"}


def import_released(path: str) -> tuple:
    """The authors' modules that learn and average."""
    for name in STOOD_IN_FOR:
        sys.modules[name] = MagicMock()
    for name in ("RandomHorizontalFlip", "RandomRotation", "ColorJitter", "RandomPerspective",
                 "RandomAffine", "RandomResizedCrop"):  # fmt: skip
        setattr(sys.modules["torchvision"].transforms, name, lambda *a, **k: torch.nn.Identity())
    sys.path.insert(0, path)
    import models.resnet
    import utils.cl_utils
    import utils.train_utils
    import utils.utils_memory

    return models.resnet, utils.cl_utils, utils.train_utils, utils.utils_memory


def make_data() -> Dataset:
    """Random images of CIFAR-10's shape; what they show does not matter here."""
    draw = generator(0, "lockstep")
    y = torch.arange(4).repeat_interleave(60)
    x = torch.randint(0, 256, (len(y), 3, 32, 32), generator=draw).to(torch.uint8)
    return Dataset("noise", "image", x, y, x[::10], y[::10], tuple("abcd"))


class Released:
    """The authors' clients, driven by the events of our run."""

    def __init__(self, released: tuple, run: Run, data: Dataset, fl_update: str, steps: int):
        resnet, cl_utils, self.train_utils, utils_memory = released
        self.args = argparse.Namespace(
            n_classes=4, input_size=(3, 32, 32), device="cpu", model_name="resnet", lr=LR,
            optimizer="sgd", n_classes_per_task=2, fl_update=fl_update, mu=0.01, batch_size=10,
            local_epochs=steps, dataset_name="cifar10", memory_size=MEMORY, n_tasks=TASKS,
            sampling_strategy="random", update_strategy="reservoir", n_clients=CLIENTS)  # fmt: skip
        self.data, self.ours = data, run._engine._clients
        self.batches = {c.number: iter(c.stream._batches) for c in self.ours}
        self.draws: dict[int, list] = {c.number: [] for c in self.ours}
        self.clients = []
        for ours, share in zip(self.ours, build.build_shares(run.settings, data), strict=True):
            model = resnet.SlimResNet18(4, (3, 32, 32))
            for theirs, own in zip(model.parameters(), ours.model.parameters(), strict=True):
                theirs.data.copy_(own.data)
            client = cl_utils.Client(
                self.args, [[], [], []], model, torch.optim.SGD(model.parameters(), lr=LR),
                torch.nn.CrossEntropyLoss(), utils_memory.Memory(self.args), ours.number,
                [c for task in share.tasks for c in task])  # fmt: skip
            client.augment = torch.nn.Identity()
            self.clients.append(client)
            if ours.learner.memory is not None:
                self._share_draws(ours, client)
        start = self.train_utils.modelAvg(self.args, [c.model for c in self.clients])
        for client in self.clients:
            client.global_model = start

    def _share_draws(self, ours, theirs) -> None:
        draw, drawn = ours.learner.memory.draw, self.draws[ours.number]

        def record(n, exclude_task=None):
            x, y = draw(n, exclude_task)
            if len(x):  # there is nothing to replay in the first task
                drawn.append((x, y))
            return x, y

        ours.learner.memory.draw = record
        theirs.memory.random_sampling = lambda n, exclude_task=None: (*drawn.pop(0), None)

    def learn(self, event: Learned) -> None:
        """The mini-batch that our client has just learned."""
        client = self.clients[event.client]
        task, rows = next(self.batches[event.client])
        if task != client.task_id:
            client.task_id, client.seen_per_task = task, 0
        x, y = self.data.prepare(self.data.x_train[rows]), self.data.y_train[rows]
        client.seen_per_task += len(y)
        client.importance_weight = client.compute_weight()
        if self.ours[0].learner.memory is None:
            client.train(x, y)
        elif task == 0:
            client.train_with_update(x, y)
        else:
            client.train_with_memory(x, y)

    def round(self, event: Round) -> None:
        """The round that our server has just held."""
        weighted = self.args.fl_update.startswith("w_")
        average = self.train_utils.weightedFedAvg if weighted else self.train_utils.FedAvg
        model = average(self.args, event.clients, self.clients)
        for client in (self.clients[k] for k in event.clients):
            client.save_last_local_model()
            client.update_parameters(model.state_dict())
            client.save_last_global_model(model)

    def apart(self) -> float:
        """The largest difference of any parameter or BatchNorm statistic of any client."""
        largest = 0.0
        for theirs, ours in zip(self.clients, self.ours, strict=True):
            pairs = zip(theirs.model.state_dict().values(), ours.model.state_dict().values(),
                        strict=True)  # fmt: skip
            floats = [(a, b) for a, b in pairs if a.is_floating_point()]
            largest = max(largest, *((a - b).abs().max().item() for a, b in floats))
        return largest


def main(path: str) -> None:
    """Runs every case; prints how far the two are apart at the end of each task."""
    torch.set_default_dtype(torch.float64)
    Dataset.prepare = lambda self, x: (x.double() / 255 - 0.5) / 0.25
    released, data = import_released(path), make_data()
    for method, fl_update, steps in CASES:
        run = Run(make_settings({
            "protocol": "published", "method": method, "aggregation": AGGREGATIONS[fl_update],
            "steps": steps, "augment": False, "clients": CLIENTS, "tasks": TASKS, "lr": LR,
            "memory": MEMORY, "burn_in": 2, "q": 2, "device": "cpu"}), data)  # fmt: skip
        theirs = Released(released, run, data, fl_update, steps)
        for event in run:
            if isinstance(event, Learned):
                theirs.learn(event)
            elif isinstance(event, Round):
                theirs.round(event)
            elif isinstance(event, Evaluated) and event.client == 0:
                rounds = run.result().rounds
                print(f"{method}, {fl_update}, {steps} steps: after task {event.task + 1} and "
                      f"{rounds} rounds {theirs.apart():.1e} apart", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
