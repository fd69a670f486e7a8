"""FedCBDR's global view: leverage scores, the room of classes, what stays."""

from collections import Counter

import pytest
import torch

from ofcl import Memory
from ofcl.errors import OfclError
from ofcl.memory.choice import weighted
from ofcl.memory.policy import Policy
from ofcl.memory.shares import even_shares
from ofcl.methods.federated.fedcbdr_view import (
    GlobalView,
    leverage,
    shares_by_weight,
    unit_features,
)
from tests.methods.federated.small import Plain


def test_leverage_by_hand():
    # G = diag(4, 1): xᵀ G⁻¹ x = 2² / 4 + 3² / 1
    gram = torch.diag(torch.tensor([4.0, 1.0]))
    assert leverage(torch.tensor([[2.0, 3.0]]), gram).item() == pytest.approx(10)
    # A direction that no client has seen does not count.
    assert leverage(
        torch.tensor([[2.0, 3.0]]), torch.diag(torch.tensor([4.0, 0]))
    ).item() == pytest.approx(1)


def test_the_sum_of_the_clients_matrices_gives_the_paper_s_scores():
    torch.manual_seed(0)
    clients = [torch.randn(n, 4) for n in (7, 5, 9)]
    clients[0][:, 3] = 0
    # The paper: features are hidden by random rotations, the server computes singular vectors,
    # and a client turns its rows back.
    hidden = [torch.linalg.qr(torch.randn(len(x), len(x)))[0] for x in clients]
    shared = torch.linalg.qr(torch.randn(4, 4))[0]
    sent = torch.cat([p @ x @ shared for p, x in zip(hidden, clients, strict=True)])
    u = torch.linalg.svd(sent, full_matrices=False)[0].split([len(x) for x in clients])
    gram = sum(x.T @ x for x in clients)
    for p, x, rows in zip(hidden, clients, u, strict=True):
        theirs = (p.T @ rows).square().sum(1)
        assert torch.allclose(leverage(x, gram), theirs, atol=1e-5)
    total = sum(leverage(x, gram).sum().item() for x in clients)
    assert total == pytest.approx(4, rel=1e-5)  # the rank


def test_room_by_weight():
    assert shares_by_weight({0: 9, 1: 9}, 8, {0: 1.0, 1: 3.0}) == {0: 2, 1: 6}
    # Class 1 has only 3 samples: the others get what it leaves, 1 : 2.
    assert shares_by_weight({0: 9, 1: 3, 2: 9}, 9, {0: 1.0, 1: 3.0, 2: 2.0}) == {0: 2, 1: 3, 2: 4}
    # Nobody is left without a place.
    assert shares_by_weight({0: 9, 1: 9, 2: 9}, 4, {0: 1e-6, 1: 1.0, 2: 1.0}) == {0: 1, 1: 1, 2: 2}
    for counts in ({0: 9, 1: 2, 2: 9}, {3: 5, 4: 5, 8: 5}, {0: 1, 1: 1}):
        for size in (3, 4, 7, 9):
            alike = shares_by_weight(counts, size, dict.fromkeys(counts, 1.0))
            assert sum(alike.values()) == sum(even_shares(counts, size).values())
            assert sorted(alike.values()) == sorted(even_shares(counts, size).values())


def test_a_class_that_others_have_too_gets_less_room():
    view = GlobalView(Plain(2, 3))
    assert view.shares({0: 9, 1: 9}, 8) == {0: 4, 1: 4}
    # Of this client's samples, half are of class 0; on average over the clients, a sixth.
    view.take(torch.eye(2), torch.tensor([0.5, 0.5, 0]), torch.tensor([1 / 6, 0.5, 1 / 3]))
    assert view.shares({0: 9, 1: 9}, 8) == {0: 6, 1: 2}
    # Of class 2 the client has told nothing: its weight is 1, as that of class 1.
    assert view.shares({0: 9, 1: 9, 2: 9}, 10) == {0: 6, 1: 2, 2: 2}


def test_a_part_is_the_mean_of_unit_features_products():
    view, memory = GlobalView(Plain(2, 2)), Memory(9, Policy(torch.ones), torch.Generator())
    assert view.part(memory).tolist() == [[0, 0], [0, 0]]
    memory.update(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([0, 1]), task=0)
    # (0.6, 0.8) and (0, 1)
    assert view.part(memory).flatten().tolist() == pytest.approx([0.18, 0.24, 0.24, 0.82])
    assert unit_features(view.model, memory.x).norm(dim=1).tolist() == pytest.approx([1, 1])


def test_keys_are_leverage_scores_of_the_model_that_the_view_is_of():
    model = Plain(2, 2)
    view, x = GlobalView(model), torch.tensor([[5.0, 0.0], [0.0, 0.1]])
    assert view(x).tolist() == [1, 1]
    nothing = torch.zeros(2)
    view.take(torch.zeros(2, 2), nothing, nothing)  # nobody had a part in the first round
    assert view(x).tolist() == [1, 1]
    view.take(torch.diag(torch.tensor([0.8, 0.2])), nothing, nothing)
    assert view(x).tolist() == pytest.approx([1.25, 5])


def test_samples_are_drawn_in_proportion_to_their_leverage():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    stayed = Counter()
    for seed in range(200):
        view = GlobalView(Plain(2, 2))
        view.take(torch.diag(torch.tensor([0.75, 0.25])), torch.zeros(2), torch.zeros(2))
        policy = Policy(view, rekey="every-round", scorer=view, choice=weighted(-1.0, seed))
        memory = Memory(1, policy, torch.Generator())
        memory.update(x, torch.tensor([0, 0]), task=0)
        stayed[memory.x[0].tolist()[1]] += 1
    # 4 : 4/3, so the second stays three times of four; 0.092 is three standard deviations
    assert stayed[1.0] / 200 == pytest.approx(0.75, abs=0.092)


def test_a_saved_view_goes_on_and_heads_grow():
    torch.manual_seed(1)
    view, other = GlobalView(Plain(2, 2)), GlobalView(Plain(2, 2))
    view.take(torch.tensor([[0.6, 0.1], [0.1, 0.4]]), torch.tensor([0.2, 0.8]), torch.ones(2) / 2)
    other.load_state(view.state())
    x = torch.randn(5, 2)
    for each in (view, other):
        each.grow(4, seed=0)
    assert torch.equal(view(x), other(x))
    assert view.shares({0: 9, 1: 9}, 5) == other.shares({0: 9, 1: 9}, 5) == {0: 1, 1: 4}
    with pytest.raises(OfclError, match="by leverage"):
        view.distances_between(x)
