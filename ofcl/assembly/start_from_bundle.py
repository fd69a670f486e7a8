"""Reading a start from the bundle of a model: weights, labels and the form of the samples."""

from __future__ import annotations

from pathlib import Path

from ofcl.assembly.start import Start, model_digest
from ofcl.bundle.bundle_files import read_bundle
from ofcl.data.files.embedder_networks import LITE0
from ofcl.data.files.embedders import EMBEDDERS
from ofcl.data.sample_forms import ImageForm, TextForm
from ofcl.settings.rules import AT_PARTY
from ofcl.settings.schema import Settings

NEVER = (*AT_PARTY, "ray", "start", "engine")
"""Settings that a bundle, which may be anybody's, never decides: files, folders, this machine."""


def start_from_bundle(path: str | Path) -> Start:
    """Reads what a run can go on from: a model without memories.

    Args:
        path: The folder or the zip file of the bundle.

    Raises:
        OfclError: If the bundle is damaged.
    """
    description, tensors = read_bundle(Path(path))
    network, form = description.network, description.samples
    known = (name for name in Settings.model_fields if name not in NEVER)
    settings = {
        name: v for name in known if (v := description.learned.settings.get(name)) is not None
    }
    settings |= {"model": network.name, "width": network.width, "hidden": network.hidden}
    if isinstance(form, TextForm) and form.as_tokens:
        settings["tokens"] = form.length
    elif isinstance(form, TextForm) and form.embedder.model in {
        e.model for e in EMBEDDERS.values()
    }:
        settings["embedder"] = form.embedder.model
    if isinstance(form, ImageForm) and form.embedder is not None and form.embedder.name == LITE0:
        settings["embedder"] = LITE0
    if (
        isinstance(form, ImageForm) and form.embedder is not None
    ):  # a bundle of an earlier version does not say it
        settings["features"] = "standardised" if form.feature_mean else "unit"
    return Start(
        name=str(path),
        digest=model_digest(tensors),
        settings=settings,
        labels=description.labels,
        form=form,
        model=tensors,
    )
