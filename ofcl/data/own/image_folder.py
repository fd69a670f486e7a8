"""A folder of images: a subfolder for each class, directly in it or in its `train/` and `test/`."""

from __future__ import annotations

from pathlib import Path

from ofcl.data.files.images import SUFFIXES, is_image
from ofcl.data.files.labels import NotALabel, label_name
from ofcl.data.raw import Raw, raw_from_labelled
from ofcl.errors import OfclError

TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "testing", "val", "valid", "validation")
"""The names that the folders of the parts may have; the first one that exists is used."""


def image_folder(path: Path) -> Raw:
    """Lists the images in the subfolders of a folder; the subfolders' names are the labels.

    Args:
        path: The folder.

    Raises:
        OfclError: There are no images, or only images to test on.
    """
    folders = {p.name.lower(): p for p in sorted(path.iterdir()) if p.is_dir()}
    train, test = (
        next((folders[name] for name in names if name in folders), None)
        for names in (TRAIN_NAMES, TEST_NAMES)
    )
    if train is None and test is not None and any(images_of_classes(test).values()):
        raise OfclError(f"'{test}' has classes, but there is no '{path.name}/train' to learn them")
    folders_of_parts = {"train": train or path}
    if train and test:
        folders_of_parts["test"] = test
    parts, empty = {}, []
    for part, folder in folders_of_parts.items():
        classes = images_of_classes(folder)
        empty += [name for name, files in classes.items() if not files]
        labelled = [(file, name) for name, files in classes.items() for file in files]
        parts[part] = [file for file, _ in labelled], [name for _, name in labelled]
    if not parts["train"][0]:
        raise OfclError(
            f"no images in the subfolders of '{path}'; expected '{path.name}/CLASS/….png' or "
            f"'{path.name}/train/CLASS/….png' ({', '.join(sorted(SUFFIXES))})"
        )
    for name in {name for _, names in parts.values() for name in names}:
        try:
            label_name(name)
        except NotALabel as error:
            raise OfclError(f"a folder of '{path}' cannot name a class: {error}") from None
    notes = (f"no images in {', '.join(map(repr, empty))}",) if empty else ()
    return raw_from_labelled(path.resolve().name, "image files", parts, notes)


def images_of_classes(folder: Path) -> dict[str, list[Path]]:
    """Lists the images in each subfolder and in all folders below it, by the subfolder's name.

    Hidden folders and images are left out.

    Args:
        folder: The folder.
    """
    return {
        sub.name: sorted(
            p
            for p in sub.rglob("*")
            if is_image(p)
            and not p.is_dir()
            and not any(part.startswith(".") for part in p.relative_to(sub).parts)
        )
        for sub in sorted(folder.iterdir())
        if sub.is_dir() and not sub.name.startswith(".")
    }
