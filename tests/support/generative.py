"""Networks of the generative methods, as small as they get."""

import torch

from ofcl.models.generators import ACGAN


def make_gan(seed=0):
    torch.manual_seed(seed)
    return ACGAN((1, 8, 8), 4, mean=(0.5,), std=(0.25,), channels=1).eval()
