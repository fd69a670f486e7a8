"""Algorithm 1 of the paper in one page: online federated continual learning as a plain loop.

Three clients learn to recognise handwritten digits. Each has its own samples, which come once, in
mini-batches; every task brings new classes. A client keeps a few samples in a memory and replays
them, so that it does not forget the classes of past tasks. Now and then the server averages the
clients' models, and all go on from the result. Samples never leave a client.

Of the package `ofcl`, this page uses only the data, the network and the random seeds. The package
computes the same numbers: `tests/docs/test_algorithm_in_one_page.py` compares the two.

    python examples/algorithm_in_one_page.py
"""

import copy
import math

import torch
import torch.nn.functional as F

from ofcl import ArrayStream, build_scenario, load_dataset
from ofcl.models.mlp import MLP
from ofcl.seeds import generator, private  # the package's, so that both draw the same numbers

SEED, CLIENTS, TASKS = 1, 3, 5
BATCH_SIZE, HIDDEN = 10, 64  # samples of a mini-batch; hidden units of the network
STEPS, LEARNING_RATE = 3, 0.1  # gradient steps for each mini-batch
MEMORY = 40  # samples that a client remembers
COPIES, NOISE = 5, 0.3  # noisy copies from which a sample is scored; their standard deviation
BURN_IN, Q = 3, 3  # in each task, a round after every Q mini-batches, but none in the burn-in
PREVIOUS = 0.5  # share of the previous global model in the next one
EMPTY = -1  # stands for the class where the memory has a free place


class Client:
    """A client: a stream, a model, and a memory with MEMORY places.

    Args:
        number: The number of the client, from 0.
        model: The model from which it starts; it gets a copy.
        stream: Its mini-batches.
    """

    def __init__(self, number, model, stream):
        self.stream = stream
        self.model = copy.deepcopy(model)
        self.samples = 0  # of the current task, so far
        self.memory_x = torch.zeros(MEMORY, model.hidden.in_features)
        self.memory_y = torch.full((MEMORY,), EMPTY)  # class of each sample
        self.memory_task = torch.zeros(MEMORY, dtype=torch.long)  # task in which it came
        self.replay_draws = generator(SEED, "memory", number)
        self.noise_draws = generator(SEED, "perturbation", number)


def train(client, x, y, task):
    """Takes the client's gradient steps on a mini-batch x (n, features), y (n,) of a task.

    Each step also replays samples from the client's memory that came in other tasks.
    """
    past = (client.memory_y != EMPTY) & (client.memory_task != task)  # (MEMORY,)
    places = past.nonzero().squeeze(1)  # none in the first task
    for _ in range(STEPS):
        order = torch.randperm(len(places), generator=client.replay_draws)
        replayed = places[order[: len(x)]]  # at most as many as there are new samples
        seen_x = torch.cat([x, client.memory_x[replayed]])  # (new + replayed, features)
        seen_y = torch.cat([y, client.memory_y[replayed]])  # (new + replayed,)
        loss = F.cross_entropy(client.model(seen_x), seen_y)
        weights = list(client.model.parameters())
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data.sub_(gradient, alpha=LEARNING_RATE)


@torch.no_grad()
def bregman_information(client, x):
    """Computes the uncertainty (n,) of samples x (n, features).

    It is larger, the more the predictions of the client's model for noisy copies differ.
    """
    noise = torch.randn(COPIES, *x.shape, generator=client.noise_draws)
    copies = x + NOISE * noise  # (COPIES, n, features)
    logits = client.model(copies.flatten(0, 1)).view(COPIES, len(x), -1)  # (COPIES, n, classes)
    return (logits.logsumexp(2).mean(0) - logits.mean(0).logsumexp(1)).clamp(min=0)


def split_room(counts):
    """Splits the places of the memory evenly over the classes.

    A class with fewer samples than its share leaves the rest to other classes.

    Args:
        counts: By class, how many samples could stay.

    Returns:
        By class, how many samples stay.
    """
    room, left = {}, MEMORY
    for n, c in enumerate(sorted(counts, key=lambda c: (counts[c], -c))):  # the smallest first
        room[c] = min(counts[c], left // (len(counts) - n))
        left -= room[c]
    return room


def update_memory(client, x, y, task):
    """Offers a mini-batch of the task, x (n, features) of classes y (n,), to the client's memory.

    Of each class, the least uncertain samples stay.
    """
    x = torch.cat([client.memory_x, x])  # (MEMORY + n, features): the new samples come last
    y = torch.cat([client.memory_y, y])  # (MEMORY + n,)
    rows = {c: (y == c).nonzero().squeeze(1) for c in y.unique().tolist() if c != EMPTY}
    room = split_room({c: len(rows[c]) for c in rows})
    crowded = [c for c in rows if len(rows[c]) > room[c]]  # none until the memory is full
    if crowded:
        candidates = torch.cat([rows[c] for c in crowded]).sort().values
        scores = torch.zeros(len(y))
        scores[candidates] = bregman_information(client, x[candidates])
        for c in crowded:
            least_uncertain_first = scores[rows[c]].argsort(stable=True)
            rows[c] = rows[c][least_uncertain_first][: room[c]]
    staying = torch.cat(list(rows.values()))
    new = staying[staying >= MEMORY]
    taken = set(staying.tolist())
    free = [place for place in range(MEMORY) if place not in taken][: len(new)]
    client.memory_x[free] = x[new]
    client.memory_y[free] = y[new]
    client.memory_task[free] = task


@torch.no_grad()
def average(clients, previous):
    """Averages the clients' models, weighted by their samples; returns the new global model.

    The previous global model has a share in it; None: this is the first round.
    """
    total = sum(client.samples for client in clients)
    mean = {name: torch.zeros_like(value) for name, value in clients[0].model.state_dict().items()}
    for client in clients:
        for name, value in client.model.state_dict().items():
            mean[name].add_(value, alpha=client.samples / total)
    if previous is None:  # in the first round
        return mean
    return {name: mean[name].lerp(previous[name], PREVIOUS) for name in mean}


@torch.no_grad()
def accuracy(model, x, y):
    """Computes the percentage of samples x (n, features) whose class in y (n,) a model predicts."""
    return 100 * (model(x).argmax(1) == y).double().mean()


def load_digits():
    """Loads the digits as vectors: train x (n, 64), their classes y (n,), test x, test y."""
    data = load_dataset("digits")
    x_train, x_test = (data.prepare(x).flatten(1) for x in (data.x_train, data.x_test))
    return x_train, data.y_train, x_test, data.y_test


def federate(x_train, y_train, x_test, y_test):
    """Runs Algorithm 1 on samples x (n, features) of classes y (n,), dealt to the clients.

    Returns the global model, the clients, accuracy A and forgetting F.
    """
    classes = int(y_train.max()) + 1
    shares = build_scenario(
        y_train.numpy(), y_test.numpy(), classes, seed=SEED, clients=CLIENTS, tasks=TASKS
    )
    # Every task ends where the shortest one does, so that the clients stay in step.
    batches = min(math.ceil(len(rows) / BATCH_SIZE) for share in shares for rows in share.train)
    with private(SEED, "model"):
        model = MLP(x_train.shape[1], HIDDEN, classes)
    clients = []
    for k, share in enumerate(shares):
        stream = ArrayStream(x_train, y_train, share.train, BATCH_SIZE, limit=batches)
        clients.append(Client(k, model, stream))
    global_model = None
    # a[k, t, i]: accuracy of client k after task t on its test samples of task i
    a = torch.zeros(CLIENTS, TASKS, TASKS, dtype=torch.double)

    for task in range(TASKS):
        for client in clients:
            client.samples = 0
        for batch in range(1, batches + 1):
            for client in clients:
                x, y, _ = next(client.stream)  # (BATCH_SIZE, features), (BATCH_SIZE,)
                train(client, x, y, task)
                update_memory(client, x, y, task)
                client.samples += len(x)
            if batch > BURN_IN and batch % Q == 0:
                global_model = average(clients, global_model)
                for client in clients:
                    client.model.load_state_dict(global_model)
        for k, client in enumerate(clients):
            for i in range(task + 1):
                rows = torch.from_numpy(shares[k].test[i])
                a[k, task, i] = accuracy(client.model, x_test[rows], y_test[rows])

    best = a[:, :-1, :-1].amax(1)  # (CLIENTS, TASKS - 1): of each task, before the last one
    return global_model, clients, a[:, -1].mean(), (best - a[:, -1, :-1]).mean()


if __name__ == "__main__":
    _, _, final_accuracy, forgetting = federate(*load_digits())
    print(f"A = {final_accuracy:.1f} %: accuracy after the last task, mean over tasks and clients")
    print(f"F = {forgetting:.1f} %: forgetting, how far past tasks have fallen from their best")
