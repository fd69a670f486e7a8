"""Bundles of networks that have learned nothing: random weights and statistics."""

from dataclasses import replace

import torch

from ofcl.bundle.bundle_files import Bundle
from ofcl.bundle.description import Description, Learned, Network, Perturbed
from ofcl.bundle.network import _build
from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.files.embedders import Embedder
from ofcl.data.sample_forms import ImageForm, TableForm, TextForm, VectorForm
from ofcl.models.prototypes import COUNTS, PROTOTYPES
from ofcl.seeds import private
from ofcl.update import travelling

GREY = ImageForm((1, 8, 8), (0.3,), (0.25,), resized=True)
COLOUR = ImageForm((3, 16, 16), (0.3, 0.4, 0.5), (0.25, 0.2, 0.3))
TABLE = TableForm(("age", "pulse"), (1.7e9, 70.0), (0.5, 9.0))
VECTORS = VectorForm(5)
MIXED = TableForm(
    ("age", "sex", "seen", "smokes"),
    mean=(50.0, 0.0, 0.0, 0.0, 2e4, 0.0, 0.0, 0.0, 0.0),
    scale=(9.0, 1.0, 1.0, 1.0, 30.0, 1.0, 1.0, 1.0, 1.0),
    codes=(
        ColumnCode("age", "number"),
        ColumnCode("sex", "category", categories=("f", "m")),
        ColumnCode("seen", "date", format="iso"),
        ColumnCode("smokes", "boolean", gaps=True, fill=0.5),
    ),
)
TEXTS = TextForm(Embedder("some/embedder", prefix="query: ", version="v7"), 6)
LABELS = ("flu", "asthma", "healthy")


def made_up_bundle(network="mlp", form=TABLE, labels=LABELS, licence=""):
    """A bundle whose head has an output more than there are labels."""
    sizes = Network(network, len(labels) + 1, width=2, hidden=8)
    copies = Perturbed(("rotate-10",), "raw", "bilinear", 0.1, 3)
    learned = Learned({}, "trial", "", 2, 5, (), True, {"global_A": 91.0}, None, {}, licence)
    description = Description(labels, sizes, form, "head", copies, learned)
    with private(0, "made up"):
        tensors = dict(travelling(_build(description), statistics=True))
        for name, value in tensors.items():
            noise = torch.rand(value.shape) if "running_var" in name else torch.randn(value.shape)
            tensors[name] = value.detach() + 0.1 * noise
    return Bundle(description, tensors)


def by_nearest_mean(bundle, counts=(5, 0, 2, 0)):
    """The same bundle, classified by prototypes; a class without samples has none."""
    features = bundle.tensors["head.weight"].shape[1]
    draw = torch.Generator().manual_seed(0)
    means = torch.randn(len(counts), features, generator=draw) / features**0.5
    tensors = {**bundle.tensors, PROTOTYPES: means, COUNTS: torch.tensor(counts)}
    return Bundle(replace(bundle.description, classifier="nearest-mean"), tensors)
