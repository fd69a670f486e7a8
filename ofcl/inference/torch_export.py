"""A model as one file of `torch.export`, which needs PyTorch but not ofcl."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import torch

from ofcl.bundle.bundle_files import Bundle
from ofcl.bundle.open_bundle import open_bundle
from ofcl.inference.prepared_network import PreparedNetwork, facts, made_up_samples
from ofcl.storage.atomic_files import write_whole_bytes

MOST_SAMPLES = 2**31 - 1  # in a batch: PyTorch 2.6 exports no slices without a limit


def export_torch(bundle: Bundle, path: Path) -> None:
    """Writes a model as a file that `torch.export.load` reads.

    The program takes a batch of raw samples and returns logits and probabilities. Beside it are the
    texts of `prepared_network.facts`, for `extra_files`.

    Args:
        bundle: The bundle of the model.
        path: The file, by custom with the ending `.pt2`; an older one is replaced.
    """
    model = open_bundle(bundle, trusted=True)
    example = torch.from_numpy(made_up_samples(model.description.samples, 2))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of PyTorch about itself
        program = torch.export.export(
            PreparedNetwork(model),
            (example,),
            dynamic_shapes=({0: torch.export.Dim("n", max=MOST_SAMPLES)},),
            strict=False,
        )
        _forget_sources(program)
        buffer = io.BytesIO()
        torch.export.save(program, buffer, extra_files=dict(facts(model.description)))
    write_whole_bytes(path, buffer.getvalue())


def _forget_sources(program: torch.export.ExportedProgram) -> None:
    """Takes out where in the source each operation was called: paths of this machine."""
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
