"""`ofcl export`: a model in forms that other programs use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ofcl.bundle.bundle_files import Bundle, write_zip
from ofcl.bundle.open_bundle import find_bundle, find_weights, open_bundle
from ofcl.cli.model_options import EmbedderName
from ofcl.cli.shared_options import Allow
from ofcl.cli.terminal import out_console, say
from ofcl.errors import OfclError
from ofcl.inference.hub_export import check_name, upload, write_repository
from ofcl.inference.onnx_export import export_onnx
from ofcl.inference.torch_export import export_torch


def export(
    model: Annotated[Path, typer.Argument(help="A run directory, or a bundle (folder or zip).")],
    onnx: Annotated[
        Path | None, typer.Option(help="Write an ONNX file, with labels in its metadata.")
    ] = None,
    torch: Annotated[
        Path | None, typer.Option(help="Write a program of torch.export (.pt2).")
    ] = None,
    zip_: Annotated[
        Path | None, typer.Option("--zip", help="Write the bundle as one zip file.")
    ] = None,
    hub: Annotated[
        str | None, typer.Option(help="Upload to the Hugging Face hub, as ORG/NAME.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="For --hub: everybody may see it; else it is private.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="For --hub: write the folder, upload nothing.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder of --dry-run. [default: NAME]")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="The file of the key, if the model is encrypted.")
    ] = None,
    embedder: EmbedderName = None,
    allow: Allow = None,
) -> None:
    """Export a model for other programs: ONNX, torch.export, one zip file, the Hugging Face hub."""
    if not any((onnx, torch, zip_, hub)):
        raise OfclError("say what to make: --onnx FILE, --torch FILE, --zip FILE or --hub ORG/NAME")
    if hub is None and (public or dry_run or out is not None):
        raise OfclError("--public, --dry-run and --out are for --hub ORG/NAME")
    if out is not None and not dry_run:
        raise OfclError("--out is the folder of --dry-run; an upload leaves none")
    if hub is not None:
        check_name(hub)
    for file in (onnx, torch, zip_):
        if file is not None and file.is_dir():
            raise OfclError(f"'{file}' is a folder; name a file in it")
    bundle = find_bundle(model, key_file, allow=allow or ())
    find_weights(bundle, embedder)
    open_bundle(bundle, trusted=True)  # raises an error if its weights do not fit
    if onnx is not None:
        with _written(onnx):
            difference = export_onnx(bundle, onnx)
        say(_compared(difference))
    if torch is not None:
        with _written(torch):
            export_torch(bundle, torch)
    if zip_ is not None:
        with _written(zip_):
            write_zip(bundle, zip_)
    if hub is not None:
        _to_hub(bundle, hub, public, (out or Path(hub.split("/")[1])) if dry_run else None)


def _to_hub(bundle: Bundle, name: str, public: bool, folder: Path | None) -> None:
    """Uploads a model to the hub, or only writes the folder.

    Args:
        bundle: The bundle of the model.
        name: The name of the repository, ORG/NAME.
        public: Whether everybody may see it.
        folder: The folder to write; None: the model is uploaded.
    """
    if folder is not None:
        with _written(folder):
            write_repository(bundle, folder)
        say(f"nothing was uploaded; without --dry-run, these files go to {name}")
        return
    address = upload(bundle, name, public=public)
    out_console.print(address, highlight=False, soft_wrap=True, markup=False)
    say(f"{'public' if public else 'private'}; get it with: hf download {name} --local-dir FOLDER")


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Makes the folder of a file that is written in the `with` block, and prints its path then.

    Raises:
        OfclError: If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise OfclError(f"'{path}' cannot be written ({error.strerror or error})") from None
    out_console.print(str(path), highlight=False, soft_wrap=True, markup=False)


def _compared(difference: float | None) -> str:
    """Says how an ONNX file was compared with the model."""
    if difference is None:
        return "not compared with PyTorch: onnxruntime is missing; pip install 'ofcl[onnx]'"
    return (
        f"ONNX Runtime answers as PyTorch does (probabilities differ by {difference:.1g} at most)"
    )
