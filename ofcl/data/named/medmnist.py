"""MedMNIST's npz files: PathMNIST (the paper's CRC-Tissue) and TissueMNIST (its KC-Cell)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ofcl.data.files.arrays import image_arrays, read_arrays
from ofcl.data.raw import Part, Raw
from ofcl.errors import OfclError

TISSUES = (
    "adipose", "background", "debris", "lymphocytes", "mucus", "smooth muscle",
    "normal colon mucosa", "cancer-associated stroma", "colorectal adenocarcinoma epithelium",
)  # fmt: skip
CELLS = (
    "collecting duct, connecting tubule", "distal convoluted tubule",
    "glomerular endothelial cells", "interstitial endothelial cells", "leukocytes", "podocytes",
    "proximal tubule segments", "thick ascending limb",
)  # fmt: skip


def crc_tissue(root: Path) -> Raw:
    """Reads PathMNIST: histology of colorectal cancer, 28 × 28 in colour.

    Args:
        root: The data folder, with `pathmnist.npz` in it.
    """
    mean, std = (0.7405, 0.5330, 0.7058), (0.1237, 0.1768, 0.1244)
    return _read("crc-tissue", root / "pathmnist.npz", TISSUES, mean, std)


def kc_cell(root: Path) -> Raw:
    """Reads TissueMNIST: kidney cortex cells, 28 × 28 in grey.

    Args:
        root: The data folder, with `tissuemnist.npz` in it.
    """
    return _read("kc-cell", root / "tissuemnist.npz", CELLS, (0.1020,), (0.1000,))


def _read(
    name: str,
    path: Path,
    labels: tuple[str, ...],
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> Raw:
    """Reads a MedMNIST file with its train, validation and test images.

    Args:
        name: The name of the dataset.
        path: The npz file.
        labels: The label of each class.
        mean: The mean of each channel, for normalisation.
        std: The standard deviation of each channel, for normalisation.
    """
    arrays = read_arrays(path)
    parts = {}
    for split in ("train", "val", "test"):
        try:
            x, y = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        except KeyError as error:
            raise OfclError(f"'{path}' lacks the array {error}") from None
        x = image_arrays(x, f"'{path.name}', {split}_images")
        y = y.reshape(len(y), -1)[:, 0].astype(np.int64)
        if len(x) != len(y) or not ((y >= 0) & (y < len(labels))).all():
            raise OfclError(f"'{path}' is damaged: {len(x)} images, {len(y)} labels ({split})")
        parts[split] = Part(x, y)
    return Raw(
        name, "images", parts["train"], labels, parts["test"], parts["val"], mean=mean, std=std
    )
