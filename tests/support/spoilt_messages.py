"""Answers, requests and introductions in which one thing is wrong: forty kinds of answers."""

import torch

ODD = (float("nan"), float("inf"), -float("inf"))
LEARNED = {"event": "learned", "client": 0, "task": 0, "batches": 1, "samples": 1, "loss": 1.0,
           "correct": 0}  # fmt: skip
TESTED = {"event": "evaluated", "client": 0, "task": 0, "test": [], "validation": [],
          "global_test": [], "confusions": []}  # fmt: skip


def answer_kinds(state, draw, client=0):
    """The ways in which an answer with an update can be spoilt, by name.

    Args:
        state: The answer of a client; calling one of the functions changes it.
        draw: Where there are several ways of one kind, this chooses.
        client: The number of the client.
    """
    update = state["update"]
    name = draw.choice(sorted(update["state"]))
    tensor, odd = update["state"][name], draw.choice(ODD)
    number = draw.choice([-1, 10**9, 1.5, "7", None, True, [1]])
    learned, tested = {**LEARNED, "client": client}, {**TESTED, "client": client}
    other = client + 1

    def put(value):
        update["state"][name] = value

    return {
        "not finite": lambda: tensor.view(-1)[draw.randrange(tensor.numel()) :][:1].fill_(odd),
        "all not finite": lambda: tensor.fill_(odd),
        "shape": lambda: put(draw.choice(
            [tensor.unsqueeze(0), torch.zeros(7, 5, 3), torch.cat([tensor, tensor, tensor])])),
        "no numbers": lambda: put(tensor.flatten()[:0]),
        "one number": lambda: put(torch.tensor(1.0)),
        "double": lambda: put(tensor.double()),
        "half": lambda: put(tensor.half()),
        "whole numbers": lambda: put(tensor.long()),
        "complex": lambda: put(torch.complex(tensor, tensor)),
        "no tensor": lambda: put(draw.choice(["tensor", None, 3.0, [1.0], {"a": 1}])),
        "missing": lambda: update["state"].pop(name),
        "more": lambda: update["state"].update({f"{name}.more": tensor}),
        "renamed": lambda: update["state"].update({name + "\x1b[2J": update["state"].pop(name)}),
        "no state": lambda: update.update(state=draw.choice([None, 5, "x", [], {}])),
        "head too wide": lambda: update["state"].update(
            {n: torch.zeros(10**4, *t.shape[1:]) for n, t in update["state"].items()
             if n.startswith("head.")}),
        "head in two widths": lambda: update["state"].update(
            {"head.weight": update["state"]["head.weight"][:1]}),
        "samples": lambda: update.update(samples=number),
        "classes": lambda: update.update(classes=draw.choice(
            [[[0, 5]], [[-1, 2]], [["a", 2]], "many", [[1]], 5])),
        "extras": lambda: update.update(extras={"generator": torch.zeros(2)}),
        "odd extras": lambda: update.update(extras=draw.choice([5, None, "x", [1]])),
        "other client": lambda: state.update(client=draw.choice([other, 99, str(client), None])),
        "update of another": lambda: update.update(client=draw.choice([other, 99, 0.5, None])),
        "update with more": lambda: update.update(sent=5, weight=10**9),
        "no update": lambda: state.update(update=None),
        "update of another type": lambda: state.update(update=draw.choice([5, "x", [], [update]])),
        "exchange": lambda: state.update(exchange=draw.choice([0, 10**6, -1, "2", None])),
        "run": lambda: state.update(run=draw.choice(["another", "", 5, None])),
        "status": lambda: state.update(status=draw.choice(["finished", "learning", "boss", 1])),
        "learned": lambda: state.update(learned=draw.choice([-1, 1.5, "7", None, [1]])),
        "released": lambda: state.update(released=draw.choice([-1, 10**9, 1.5, "7", None])),
        "fingerprint": lambda: state.update(data=draw.choice([5, None, "x" * 65, ["x"]])),
        "field": lambda: state.pop(draw.choice(sorted(state))),
        "more fields": lambda: state.update(admin=True),
        "labels": lambda: state.update(labels=draw.choice(
            ["cat", [5], ["a\nb"], [""], ["x" * 201], None, {"a": 1}])),
        "escapes in labels": lambda: state.update(labels=["\x1b[2Jcat"]),
        "ten thousand labels": lambda: state.update(labels=[f"label {n}" for n in range(10**4)]),
        "200,000 events": lambda: state.update(events=[learned] * 200_000),
        "events": lambda: state.update(events=draw.choice([["text"], 7, [5], {"event": "round"}])),
        "events of the server": lambda: state.update(events=[draw.choice([
            {"event": "round", "round": 1, "clients": [0], "samples": [1], "bytes_sent": 0,
             "bytes_received": 0},
            {"event": "appeared", "client": client, "label": "x", "place": 0},
            {"event": "skipped", "client": client, "source": "x", "row": 0, "problem": "x"},
            {"event": "explosion"}])]),
        "events of another": lambda: state.update(events=[{**learned, "client": other}]),
        "what it has learned": lambda: state.update(events=[{**learned, **draw.choice([
            {"batches": "x"}, {"batches": -1}, {"task": [1]}, {"task": 10**9}, {"task": -1},
            {"samples": 10**6}, {"loss": "x"}, {"loss": None}, {"loss": odd}, {"correct": 2}])}]),
        "what it was tested on": lambda: state.update(events=[{**tested, **draw.choice([
            {"test": [[[0, 9, 1]]]}, {"test": 5}, {"test": [[], [], []]},
            *({"confusions": cells} for cells in (
                7, [7], [[0, 1]], [[0, 99, 1]], [[-1, 0, 1]], [[0, 0, "x"]]))])}]),
    }  # fmt: skip


def spoil_answer(state, draw, client=0):
    """Spoils an answer in one way; gives the name of the way."""
    kinds = answer_kinds(state, draw, client)
    kind = draw.choice(sorted(kinds))
    kinds[kind]()
    return kind


def spoil_request(message, draw):
    """Spoils a server's message to a party; gives the name of the way."""
    request, terms = message["request"], message["terms"]
    name = draw.choice(sorted(request["model"]))
    tensor = request["model"][name]
    kinds = {
        "model not finite": lambda: tensor.view(-1)[:1].fill_(draw.choice(ODD)),
        "model's shape": lambda: request["model"].update({name: torch.zeros(7, 5, 3)}),
        "model's type": lambda: request["model"].update({name: draw.choice([None, "x", 3.0])}),
        "model without a tensor": lambda: request["model"].pop(name),
        "no model": lambda: request.update(model=draw.choice([None, 5, "x", {}])),
        "run": lambda: request.update(run=draw.choice(["../../etc", "", "Run", 5, None])),
        "exchange": lambda: request.update(exchange=draw.choice([0, -1, None, "x"])),
        "steps": lambda: request.update(steps=draw.choice([None, 5, ["sum"]])),
        "more fields": lambda: request.update(admin=True),
        "field": lambda: request.pop(draw.choice(["run", "exchange", "steps", "model"])),
        "no terms": lambda: message.update(terms=draw.choice([None, 5, "x", {}, []])),
        "terms without": lambda: terms.pop(draw.choice(["settings", "labels", "base", "samples"])),
        "other labels": lambda: terms.update(labels=terms["labels"][::-1]),
        "odd labels": lambda: terms.update(labels=draw.choice([None, 5])),
        "masks within a run": lambda: terms["settings"].update(secure_aggregation=True),
        "odd settings": lambda: terms.update(settings=draw.choice([None, 5, "x"])),
        "odd samples": lambda: terms.update(samples=draw.choice([None, 5, {"way": "x"}])),
    }  # fmt: skip
    kind = draw.choice(sorted(kinds))
    kinds[kind]()
    return kind


def spoil_introduction(state, draw):
    """Spoils a party's introduction; gives the name of the way."""
    samples = state["samples"]
    kinds = {
        "no samples": lambda: state.update(samples=draw.choice([None, 5, "x", {}, []])),
        "field": lambda: state.pop(draw.choice(["party", "labels", "samples"])),
        "name": lambda: state.update(party=draw.choice([5, None, ["x"]])),
        "labels": lambda: state.update(labels=draw.choice(
            [None, 5, "cat", [5], ["a\nb"], ["\x1b[2J"], ["x" * 201], [""], [None], {"a": 1}])),
        "many labels": lambda: state.update(labels=[str(n) for n in range(10_001)]),
        "way": lambda: samples.update(way=draw.choice(["x", None, 5])),
        "kind": lambda: samples.update(kind=draw.choice(["sound", None, 5, "vector"])),
        "shape": lambda: samples.update(shape=draw.choice(
            [[], [0], [-1, 8, 8], [1.5], ["8"], [10**9, 10**9, 10**9], None, [8], 64])),
        "mean": lambda: samples.update(mean=draw.choice(
            [[], [1.0, 2.0], ["x"], [None], [float("nan")], [float("inf")], [1e31], 0.5])),
        "deviation": lambda: samples.update(std=draw.choice(
            [[], [0.0], [-1.0], ["x"], [float("nan")], [float("inf")], None])),
        "count": lambda: samples.update(count=draw.choice([-1, 1.5, "7", None, 10**12, True])),
        "embedder": lambda: samples.update(embedder=draw.choice([5, ["x"], "x" * 201])),
        "columns": lambda: samples.update(columns=draw.choice([["a"], [5], ["\x1b[2J"], 5])),
    }  # fmt: skip
    kind = draw.choice(sorted(kinds))
    kinds[kind]()
    return kind
