"""TinyImageNet: 200 classes, 64 × 64 pixels.

Its test part has no labels, so its validation part is used for testing.
"""

from __future__ import annotations

from pathlib import Path

from ofcl.data.files.labels import classes_of
from ofcl.data.raw import Part, Raw
from ofcl.errors import OfclError


def tinyimagenet(root: Path) -> Raw:
    """Reads the 100,000 train and 10,000 test images in the official folders.

    Args:
        root: The data folder, with the unpacked archive in it.
    """
    folder = root / "tiny-imagenet-200"
    ids = _lines(folder / "wnids.txt")
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    train = [
        (path, wnid)
        for wnid in ids
        for path in sorted((folder / "train" / wnid / "images").glob("*.JPEG"))
    ]
    annotations = [line.split("\t")[:2] for line in _lines(folder / "val" / "val_annotations.txt")]
    damaged = [line for line in annotations if len(line) < 2 or line[1] not in set(ids)]
    if damaged:
        raise OfclError(f"'{folder}/val/val_annotations.txt' is damaged at {damaged[0]}")
    return Raw(
        "tinyimagenet",
        "image files",
        Part([path for path, _ in train], classes_of([wnid for _, wnid in train], ids)),
        tuple(f"{words.get(wnid, '').split(',')[0]} ({wnid})".strip() for wnid in ids),
        Part(
            [folder / "val" / "images" / name for name, _ in annotations],
            classes_of([wnid for _, wnid in annotations], ids),
        ),
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2302, 0.2265, 0.2262),
    )


def _lines(path: Path) -> list[str]:
    """Reads the lines of a text file that are not empty."""
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, UnicodeDecodeError) as error:
        raise OfclError(f"'{path}' cannot be read ({error})") from None
