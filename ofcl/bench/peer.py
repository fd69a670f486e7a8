"""Times the paper's released code, checked out by the user, on the same work.

None of that code is in this package: its functions are imported, and called in the order of its
main script. Packages that it imports without need are replaced by stand-ins if they are not
installed.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import torch
from torch import nn

from ofcl.assembly.resolve import find_device
from ofcl.bench.workload import WARM_UP, Workload, random_dataset, seconds_per_round, synchronise
from ofcl.errors import OfclError

_NOT_NEEDED = (
    "medmnist", "datasets", "keras", "keras.datasets", "sklearn", "sklearn.datasets",
    "sklearn.metrics", "transformers", "tqdm", "matplotlib", "matplotlib.pyplot",
)  # fmt: skip
_JUMP = 5  # mini-batches between rounds
METHODS = ("none", "er", "cbr", "bi")


class Peer:
    """A checkout of the released code.

    Args:
        path: The folder of the checkout.
        images: Whether images will be learned, for which the released code needs torchvision.

    Raises:
        OfclError: If the folder is not a checkout, or torchvision is missing.
    """

    def __init__(self, path: Path, images: bool) -> None:
        if not (path / "utils" / "cl_utils.py").is_file():
            raise OfclError(f"'{path}' is not a checkout of the paper's code (MLO-lab/online-FCL)")
        for name in _NOT_NEEDED:
            _replace_missing(name)
        if _replace_missing("torchvision") and images:
            raise OfclError("the paper's code needs torchvision for images")
        sys.path.insert(0, str(path))
        try:
            self._clients = importlib.import_module("utils.cl_utils")
            self._memory = importlib.import_module("utils.utils_memory")
            self._training = importlib.import_module("utils.train_utils")
        finally:
            sys.path.remove(str(path))

    def milliseconds(self, work: Workload, seconds: float) -> float:
        """Measures the mean milliseconds of a mini-batch of one client, rounds included.

        Args:
            work: The workload.
            seconds: The least time to measure for.
        """
        device = find_device(work.device)
        clients = self._make_clients(work, device)

        def run_round() -> None:
            """Runs one round, and waits until the device is done."""
            self._round(clients[0].args, clients)
            synchronise(device)

        for _ in range(WARM_UP):
            run_round()
        return 1e3 * seconds_per_round(run_round, seconds) / (_JUMP * len(clients))

    def _round(self, args: Namespace, clients: list[Any]) -> None:
        """Lets clients learn mini-batches and then hold a round, as the released main script does.

        Args:
            args: The options of the released code.
            clients: Clients of the released code; a single one holds no round.
        """
        for _ in range(_JUMP):
            for client in clients:
                samples, labels = client.get_next_batch()
                if args.update_strategy is None:
                    client.train(samples, labels)
                else:
                    client.train_with_memory(samples, labels)
        if len(clients) < 2:
            return
        numbers = list(range(len(clients)))
        model = self._training.FedAvg(args, numbers, clients)
        for client in clients:
            client.save_last_local_model()
            client.update_parameters(model.state_dict())
            client.save_last_global_model(model)

    def _make_clients(self, work: Workload, device: torch.device) -> list[Any]:
        """Makes clients of the released code on our data: in task two, with full memories.

        Args:
            work: The workload, with the number of clients.
            device: The device on which they learn.
        """
        args = Namespace(
            dataset_name="cifar10" if work.images else "newsgroup",
            device=str(device),
            memory_size=work.memory,
            input_size=list(work.shape) if work.images else work.shape[0],
            n_classes=work.classes,
            n_classes_per_task=work.classes // 2,
            n_clients=work.clients,
            n_tasks=2,
            batch_size=10,
            local_epochs=3,
            model_name="resnet" if work.images else "mlp",
            optimizer="sgd" if work.images else "adam",
            lr=0.1,
            mu=0.01,
            fl_update="favg",
            update_strategy={"none": None, "er": "reservoir"}.get(work.method, "balanced"),
            balanced_update="uncertainty" if work.method == "bi" else "random",
            balanced_step="bottomk",
            sampling_strategy="random",
            uncertainty_score="bregman",
            subsample_size=50,
        )
        dataset = random_dataset(work)
        x, y = dataset.prepare(dataset.x_train), dataset.y_train
        now = work.current(y)

        def stream() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            """Returns an endless iterator over mini-batches (x, y) of the current task."""
            batches = list(zip(torch.split(x[now], 10), torch.split(y[now], 10), strict=True))
            return itertools.cycle([batch for batch in batches if len(batch[1]) == 10])

        clients = []
        for number in range(work.clients):
            model, optimizer, criterion = self._training.initialize_model(args)
            memory = self._memory.Memory(args)
            memory.memory_x = x[: work.memory].clone()
            memory.memory_y = y[: work.memory].clone()
            memory.memory_t = now[: work.memory].float()
            memory.seen, memory.seen_classes = work.memory, set(range(work.classes))
            loaders, classes = [[[], stream()], [], []], list(range(work.classes))
            client = self._clients.Client(
                args, loaders, model, optimizer, criterion, memory, number, classes
            )
            client.task_id = 1
            clients.append(client)
        return clients


class _Unchanged(ModuleType):
    """A stand-in for torchvision's transforms: each transform leaves samples as they are."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **options: nn.Identity()


def _replace_missing(name: str) -> bool:
    """Puts a stand-in in the place of a module that cannot be imported; a second call is harmless.

    Args:
        name: The name of the module.

    Returns:
        Whether the module is a stand-in.
    """
    if isinstance(sys.modules.get(name), MagicMock):
        return True
    try:
        importlib.import_module(name)
    except Exception:  # torchvision of another torch version fails with all kinds of errors
        instead = MagicMock(name=name)
        if name == "torchvision":
            instead.transforms = _Unchanged(f"{name}.transforms")
            parts = {part: getattr(instead, part) for part in ("models", "datasets", "transforms")}
            sys.modules.update({f"{name}.{part}": module for part, module in parts.items()})
        sys.modules[name] = instead
        return True
    return False
