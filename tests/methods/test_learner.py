import torch

from ofcl.methods.learner import measured


def test_what_is_not_finite_is_told_of_the_client_that_has_it():
    parameters = [torch.ones(3) for _ in range(6)]  # two for each of three clients
    parameters[3][1] = float("inf")
    told = measured(torch.zeros(3, 5, 2), torch.zeros(3, 5).long(), torch.ones(3, 4), parameters)
    assert told[:, 2].tolist() == [1, 0, 1]
