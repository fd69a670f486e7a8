"""A folder of images: a subfolder a class, with `train/` and `test/` above them or not."""

from __future__ import annotations

from pathlib import Path

from ofcl.data.images import SUFFIXES, is_image
from ofcl.data.raw import Raw, gather
from ofcl.errors import OfclError

TEST_NAMES = ("test", "val", "valid", "validation")
"""What the part for testing may be called; the first that is there counts."""


def image_folder(path: Path) -> Raw:
    """The images below a folder."""
    folders = {p.name.lower(): p for p in sorted(path.iterdir()) if p.is_dir()}
    test = next((folders[name] for name in TEST_NAMES if name in folders), None)
    below = {"train": folders.get("train", path)}
    if "train" in folders and test is not None:
        below["test"] = test
    found, empty = {}, []
    for part, folder in below.items():
        classes = _classes(folder)
        empty += [name for name, files in classes.items() if not files]
        files = [(file, name) for name, files in classes.items() for file in files]
        found[part] = [file for file, _ in files], [name for _, name in files]
    if not found["train"][0]:
        raise OfclError(
            f"no images in the subfolders of '{path}'; expected '{path.name}/CLASS/….png' or "
            f"'{path.name}/train/CLASS/….png' ({', '.join(sorted(SUFFIXES))})"
        )
    notes = (f"no images in {', '.join(map(repr, empty))}",) if empty else ()
    return gather(path.resolve().name, "image files", found, notes)


def _classes(folder: Path) -> dict[str, list[Path]]:
    """The images of each subfolder."""
    return {
        sub.name: sorted(p for p in sub.rglob("*") if is_image(p))
        for sub in sorted(folder.iterdir())
        if sub.is_dir() and not sub.name.startswith(".")
    }
