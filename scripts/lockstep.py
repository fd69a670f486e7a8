"""Runs the paper's released classes and `published` side by side, and shows how far they part.

    python scripts/lockstep.py PATH_OF_THE_AUTHORS_REPOSITORY

Both get the same initial model, mini-batches, replay draws and perturbed copies, in double
precision and without random augmentation. So any difference comes from what they compute: gradient
steps, BatchNorm, rounds, averaging, the proximal term and, for methods with a score, the scores and
the choice of samples that stay in the memories. Memories that choose at random cannot have the same
samples; for these the script shows how many samples of each task they have, and when these samples
arrived. Nothing of the repository is copied: it is imported from the path. Packages that it imports
without need (data loaders, plots, torchvision) are replaced by stand-ins.
"""

import argparse
import functools
import sys
from unittest.mock import MagicMock

import torch
import torch._dynamo  # looks for packages that are replaced below, so it comes first

from ofcl import Dataset, Run, make_settings
from ofcl.assembly.dealing import build_shares
from ofcl.events import Evaluated, Learned, Round
from ofcl.memory.memory import Memory
from ofcl.methods import policies as memory_policies
from ofcl.seeds import generator, numpy_generator
from ofcl.uncertainty.change import Perturbation
from ofcl.uncertainty.draw_ahead import Draws
from ofcl.uncertainty.perturbations import ImageViews

CLIENTS, TASKS, MEMORY, LR = 2, 2, 20, 0.1
# Memories that choose at random: places, tasks, samples of a task, repetitions.
LARGE, LONG, LENGTH, SEEDS = 100, 3, 900, 100
CASES = [
    ("none", "bottom", "w_favg", 1), ("er", "bottom", "w_favg", 3), ("er", "bottom", "favg", 3),
    ("er", "bottom", "fprox", 3),
    *((score, keep, "w_favg", 3) for score in ("bi", "lc", "ms", "rc", "en")
      for keep in ("bottom", "top")),
]  # fmt: skip
SCORES = {"bi": "bregman", "lc": "confidence", "ms": "margin", "rc": "ratio", "en": "entropy"}
STOOD_IN_FOR = (
    "medmnist", "keras", "keras.datasets", "datasets", "matplotlib", "matplotlib.pyplot", "tqdm",
    "torchvision", "torchvision.models", "torchvision.transforms", "transformers",
)  # fmt: skip
AGGREGATIONS = {"w_favg": "weighted", "favg": "fedavg", "fprox": "fedprox"}


def import_released(path: str) -> tuple:
    """Imports the authors' modules that learn and average.

    Args:
        path: The path of the authors' repository.

    Returns:
        Their modules `models.resnet`, `utils.cl_utils`, `utils.train_utils`, `utils.utils_memory`.
    """
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
    """Makes a dataset of random images of CIFAR-10's shape, in four classes."""
    draw = generator(0, "lockstep")
    y = torch.arange(4).repeat_interleave(60)
    x = torch.randint(0, 256, (len(y), 3, 32, 32), generator=draw).to(torch.uint8)
    return Dataset("noise", "image", x, y, x[::10], y[::10], tuple("abcd"))


class SameViews(Perturbation):
    """A perturbation with the same random numbers in every call, for us and for the authors."""

    def __init__(self) -> None:
        self._views = ImageViews(draws="batch", pixels="normalised", interpolation="nearest")
        self._draws = self._views.draw(torch.Size([1, 3, 32, 32]), generator(0, "views"))

    def draw(self, shape, generator):
        """Returns the same numbers for every sample and every call.

        Args:
            shape: The shape of the mini-batch (n, …).
            generator: Not used.
        """
        return self._draws.repeat(1, shape[0], 1)

    def apply(self, x, draws):
        """Returns all copies (views, n, …) of samples, in the precision of the samples.

        Args:
            x: The samples (n, …).
            draws: The numbers that `draw` returned.
        """
        return self._views.apply(x, draws.to(x.dtype))

    def one(self, place: int, x):
        """Returns the copies (n, …) of samples by one perturbation.

        Args:
            place: The place of the perturbation in the list of perturbations.
            x: The samples (n, …).
        """
        return self.apply(x, self.draw(x.shape, None))[place]


class Released:
    """The authors' clients, which repeat what the clients of our run have just done.

    Args:
        released: The authors' modules (`import_released`).
        run: Our run, which has not begun.
        data: The dataset of both.
        fl_update: The authors' name of the aggregation.
        steps: Gradient steps for each mini-batch.
    """

    def __init__(self, released: tuple, run: Run, data: Dataset, fl_update: str, steps: int):
        resnet, cl_utils, self.train_utils, utils_memory = released
        method, keep = run.settings.method, run.settings.keep
        self.args = argparse.Namespace(
            n_classes=4, input_size=(3, 32, 32), device="cpu", model_name="resnet", lr=LR,
            optimizer="sgd", n_classes_per_task=2, fl_update=fl_update, mu=0.01, batch_size=10,
            local_epochs=steps, dataset_name="cifar10", memory_size=MEMORY, n_tasks=TASKS,
            sampling_strategy="random", n_clients=CLIENTS, balanced_update="uncertainty",
            update_strategy="balanced" if method in SCORES else "reservoir",
            uncertainty_score=SCORES.get(method), balanced_step=keep + "k")  # fmt: skip
        self.data, self.ours = data, run.clients
        self.batches = {c.number: iter(c.stream._batches) for c in self.ours}
        self.draws: dict[int, list] = {c.number: [] for c in self.ours}
        if method in SCORES:
            self._share_views(utils_memory)
        self.clients = []
        for ours, share in zip(self.ours, build_shares(run.settings, data), strict=True):
            model = resnet.SlimResNet18(4, (3, 32, 32))
            for theirs, own in zip(model.parameters(), ours.model.parameters(), strict=True):
                theirs.data.copy_(own.data)
            client = cl_utils.Client(
                self.args, [[], [], []], model, torch.optim.SGD(model.parameters(), lr=LR),
                torch.nn.CrossEntropyLoss(), utils_memory.Memory(self.args), ours.number,
                [c for task in share.tasks for c in task])  # fmt: skip
            client.augment = torch.nn.Identity()
            client.memory.memory_x = client.memory.memory_x.double()
            self.clients.append(client)
            if ours.learner.memory is not None:
                self._share_draws(ours, client)
        start = self.train_utils.modelAvg(self.args, [c.model for c in self.clients])
        for client in self.clients:
            client.global_model = start

    def _share_draws(self, ours, theirs) -> None:
        """Lets an authors' client replay the samples that our client has replayed.

        Args:
            ours: Our client.
            theirs: The authors' client of the same number.
        """
        memory, drawn = ours.learner.memory, self.draws[ours.number]
        draw = memory.draw

        def record(n, exclude_task, times):
            """Draws as the memory does, and writes down the drawn samples."""
            places = draw(n, exclude_task, times)
            if places.shape[1]:  # there is nothing to replay in the first task
                drawn.extend(memory.at(step) for step in places)
            return places

        memory.draw = record
        theirs.memory.random_sampling = lambda n, exclude_task=None: (*drawn.pop(0), None)

    def _share_views(self, utils_memory) -> None:
        """Replaces the authors' random transforms, and our perturbations, by `SameViews`.

        Args:
            utils_memory: The authors' module of memories.
        """
        views = SameViews()
        for client in self.ours:
            client.learner.memory.policy.scorer._draws = Draws(views, torch.Generator())
        one = [functools.partial(views.one, place) for place in range(12)]
        cutouts = {10: one[0], 20: one[1]}
        utils_memory.CutoutAfterToTensor = lambda args, holes, length: cutouts[length]
        v2 = utils_memory.v2
        v2.RandomRotation = lambda *a, degrees=None, **k: {10: one[4], 45: one[5], 90: one[6]}[
            degrees or a[0]
        ]
        others = {"RandomHorizontalFlip": 2, "RandomVerticalFlip": 3, "ColorJitter": 7,
                  "RandomPerspective": 8, "RandomAffine": 9, "RandomResizedCrop": 10,
                  "RandomInvert": 11}  # fmt: skip
        for name, place in others.items():
            setattr(v2, name, lambda *a, place=place, **k: one[place])

    def learn(self, event: Learned) -> None:
        """Lets an authors' client learn the mini-batch that our client has just learned.

        Args:
            event: The event of our run, with the client's number.
        """
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
        """Lets the authors' code hold the round that our server has just held.

        Args:
            event: The event of our run, with the clients that took part.
        """
        weighted = self.args.fl_update.startswith("w_")
        average = self.train_utils.weightedFedAvg if weighted else self.train_utils.FedAvg
        model = average(self.args, event.clients, self.clients)
        for client in (self.clients[k] for k in event.clients):
            client.save_last_local_model()
            client.update_parameters(model.state_dict())
            client.save_last_global_model(model)

    def other_samples(self) -> int:
        """Counts the samples that only one of two memories has, our client's and the authors'."""
        different = 0
        for theirs, ours in zip(self.clients, self.ours, strict=True):
            own, memory = ours.learner.memory, theirs.memory
            held = min(memory.seen, len(memory.memory_x))  # places behind these are empty
            different += len(_labelled(own.x, own.samples.y).symmetric_difference(
                _labelled(memory.memory_x[:held], memory.memory_y[:held])))  # fmt: skip
        return different

    def apart(self) -> float:
        """Computes the largest difference between our models and theirs, over all tensors."""
        largest = 0.0
        for theirs, ours in zip(self.clients, self.ours, strict=True):
            pairs = zip(theirs.model.state_dict().values(), ours.model.state_dict().values(),
                        strict=True)  # fmt: skip
            floats = [(a, b) for a, b in pairs if a.is_floating_point()]
            largest = max(largest, *((a - b).abs().max().item() for a, b in floats))
        return largest


def _labelled(x, y) -> set:
    """Returns samples as a set, each as its class and first pixels, to compare memories.

    Args:
        x: The samples (n, …).
        y: Their classes (n,).
    """
    pixels = x.flatten(1)[:, :9].tolist()
    return {(label, *first) for label, first in zip(y.tolist(), pixels, strict=True)}


def random_memories(method: str, utils_memory, seed: int) -> list[list[tuple[int, float]]]:
    """Fills their memory and ours with one stream; counts the samples of each task at the end.

    Args:
        method: `cbr` or `er`.
        utils_memory: The authors' module of memories.
        seed: The seed of the stream and of our memory.

    Returns:
        First for their memory, then for ours, and for each task: the number of samples, and the
            mean
        place in the task at which they arrived.
    """
    policies = {"cbr": memory_policies.class_balanced, "er": memory_policies.reservoir}
    args = argparse.Namespace(dataset_name="newsgroup", input_size=1, memory_size=LARGE,
                              batch_size=10, balanced_update="random")  # fmt: skip
    parts = argparse.Namespace(generator=generator(seed, "keys"), rescore="every-batch")
    theirs = utils_memory.Memory(args)
    ours = Memory(LARGE, policies[method](parts), generator(seed, "draws"), rule="released")
    draw = numpy_generator(seed, "labels")
    for task in range(LONG):
        classes = (2 * task, 2 * task + 1)
        for start in range(0, LENGTH, 10):
            x, y = (
                torch.arange(start, start + 10.0)[:, None],
                torch.tensor(draw.choice(classes, 10)),
            )
            ours.update(x, y, task, classes)
            if method == "cbr":
                theirs.class_balanced_update(x, y, task, None, classes)
            else:
                theirs.reservoir_update(x, y, task)
    held = (theirs.x[:, 0], theirs.y // 2), (ours.x[:, 0], ours.samples.y // 2)
    return [[(int((of == task).sum()), float(came[of == task].mean())) for task in range(LONG)]
            for came, of in held]  # fmt: skip


def show_random_memories(utils_memory) -> None:
    """Prints, for CBR and ER, how many samples of each task stay in memories, theirs and ours.

    Args:
        utils_memory: The authors' module of memories.
    """
    for method in ("cbr", "er"):
        held = torch.tensor([random_memories(method, utils_memory, s) for s in range(SEEDS)])
        means, errors = held.mean(0), held.std(0) / SEEDS**0.5  # (whose, task, what)
        for task in range(LONG):
            of = [f"{means[k, task, 0]:.1f}, arrival {means[k, task, 1]:.0f} ± "
                  f"{errors[k, task, 1]:.1f}" for k in (0, 1)]  # fmt: skip
            print(f"{method}, samples of task {task + 1}: theirs {of[0]}; ours {of[1]}", flush=True)


def main(path: str) -> None:
    """Runs every case; prints how far our models and theirs are apart after each task.

    Args:
        path: The path of the authors' repository.
    """
    torch.set_default_dtype(torch.float64)
    Dataset.prepare = lambda self, x: (x.double() / 255 - 0.5) / 0.25
    released, data = import_released(path), make_data()
    show_random_memories(released[3])
    for method, keep, fl_update, steps in CASES:
        run = Run(make_settings({
            "protocol": "published", "method": method, "aggregation": AGGREGATIONS[fl_update],
            "keep": keep, "steps": steps, "augment": False, "clients": CLIENTS, "tasks": TASKS,
            "lr": LR, "memory": MEMORY, "burn_in": 2, "q": 2, "device": "cpu"}), data)  # fmt: skip
        theirs = Released(released, run, data, fl_update, steps)
        compared, others = 0, 0
        for event in run:
            if isinstance(event, Learned):
                theirs.learn(event)
                if method in SCORES and event.client == CLIENTS - 1:
                    compared, others = compared + 1, others + theirs.other_samples()
            elif isinstance(event, Round):
                theirs.round(event)
            elif isinstance(event, Evaluated) and event.client == 0:
                rounds = run.result().rounds
                line = (f"{method} {keep}, {fl_update}, {steps} steps: after task {event.task + 1} "
                        f"and {rounds} rounds {theirs.apart():.1e} apart")  # fmt: skip
                if method in SCORES:
                    line += f"; memories, compared {compared} times: {others} other samples"
                print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
