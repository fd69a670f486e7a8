"""A model as one ONNX file, which needs neither ofcl nor PyTorch.

It is made by PyTorch's exporter of traced graphs (`dynamo=False`). The newer exporter gives equal
numbers, but takes more than ten times as long, needs one more package, and writes the paths of this
machine's source files into the graph.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ofcl.bundle.bundle_files import Bundle
from ofcl.bundle.open_bundle import open_bundle
from ofcl.bundle.trained_model import TrainedModel
from ofcl.errors import OfclError
from ofcl.inference.prepared_network import (
    INPUTS,
    OUTPUTS,
    PreparedNetwork,
    expected_answers,
    facts,
    made_up_samples,
)
from ofcl.storage.atomic_files import write_whole_bytes
from ofcl.version import __version__

OPSET = 17  # what ONNX Runtime has read since 1.12
MOST_BYTES = 2**31 - 2**20  # of one ONNX file with its weights inside, less what describes them
TOLERANCE = 1e-4
CHECKED_BATCHES = (1, 7)


def export_onnx(bundle: Bundle, path: Path) -> float | None:
    """Writes a model as an ONNX file, and compares it with PyTorch before it is in its place.

    Its input is called as `prepared_network.INPUTS` says, its outputs `logits` and `probabilities`.
    The metadata have the labels, the columns of a table and the whole `model.json`.

    Args:
        bundle: The bundle of the model.
        path: The file; an older one is replaced.

    Returns:
        The largest difference between ONNX Runtime's probabilities and PyTorch's on made-up
        samples; None: ONNX Runtime is not installed.

    Raises:
        OfclError: If the package onnx is missing, the model is too large for one file, or the file
            answers otherwise than the model.
    """
    try:
        import onnx
    except ImportError:
        raise OfclError(
            "ONNX files need the package onnx; install it with: pip install 'ofcl[onnx]'"
        ) from None
    model = open_bundle(bundle, trusted=True)
    if (size := sum(p.nbytes for p in model.module.state_dict().values())) > MOST_BYTES:
        raise OfclError(f"the weights have {size} bytes; an ONNX file holds at most {MOST_BYTES}")
    graph = _graph(model)
    graph.producer_name, graph.producer_version = "ofcl", __version__
    graph.doc_string = f"Takes {model.description.samples.words()}."
    onnx.helper.set_model_props(graph, facts(model.description))
    onnx.checker.check_model(graph, full_check=True)
    content: bytes = graph.SerializeToString()
    difference = _difference(model, content)
    write_whole_bytes(path, content)
    return difference


def _graph(model: TrainedModel) -> Any:
    """Returns the ONNX graph of a model, an `onnx.ModelProto`."""
    import onnx

    form = model.description.samples
    name = INPUTS[form.kind]
    example = torch.from_numpy(made_up_samples(form, 2))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a newer exporter; constants in the trace
        file = Path(folder) / "model.onnx"
        torch.onnx.export(
            PreparedNetwork(model),
            (example,),
            str(file),
            input_names=[name],
            output_names=list(OUTPUTS),
            dynamic_axes={key: {0: "n"} for key in (name, *OUTPUTS)},
            opset_version=OPSET,
            dynamo=False,
        )
        return onnx.load(file)


def _difference(model: TrainedModel, content: bytes) -> float | None:
    """Compares an ONNX file with the model, in batches of several sizes.

    Args:
        model: The model.
        content: The bytes of the file.

    Returns:
        The largest difference of a probability; None: ONNX Runtime is not installed.

    Raises:
        OfclError: If logits or probabilities differ by more than the tolerance.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    onnxruntime.set_default_logger_severity(3)  # errors only
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    form, differences = model.description.samples, []
    for count in CHECKED_BATCHES:
        samples = made_up_samples(form, count)
        expected = expected_answers(model, samples)
        found = session.run(list(OUTPUTS), {INPUTS[form.kind]: samples})
        for ours, theirs in zip(expected, found, strict=True):
            if not np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE):
                raise OfclError(
                    f"in ONNX Runtime {onnxruntime.__version__} the file answers otherwise than in "
                    f"PyTorch (by {np.abs(ours - theirs).max():.2g}); nothing was written. Try "
                    "another version of onnxruntime"
                )
        differences.append(float(np.abs(expected.probabilities - found[1]).max()))
    return max(differences)
