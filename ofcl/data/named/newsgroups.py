"""20 Newsgroups "bydate": the official folders of messages, a subfolder for each group."""

from __future__ import annotations

from pathlib import Path

from ofcl.data.files.labels import classes_of
from ofcl.data.raw import Part, Raw
from ofcl.errors import OfclError


def newsgroups(root: Path) -> Raw:
    """Reads 18,846 messages to 20 groups, split by date.

    Args:
        root: The data folder, with the unpacked archive in it.
    """
    folders = [root / f"20news-bydate-{part}" for part in ("train", "test")]
    groups = tuple(sorted(p.name for p in folders[0].iterdir() if p.is_dir()))
    train, test = (_messages(folder, groups) for folder in folders)
    return Raw("20newsgroups", "texts", train, groups, test)


def _messages(folder: Path, groups: tuple[str, ...]) -> Part:
    """Reads the messages of one part.

    Args:
        folder: The folder of the part, with a subfolder of messages for each group.
        groups: The names of all groups, which are the labels.
    """
    unknown = {p.name for p in folder.iterdir() if p.is_dir()} - set(groups)
    if unknown:
        raise OfclError(f"'{folder}' has the groups {sorted(unknown)}, which train lacks")
    files = [
        (path, group)
        for group in groups
        for path in sorted((folder / group).glob("*"))
        if path.is_file()
    ]
    try:
        # The messages are older than UTF-8; latin1 reads any byte.
        texts = [path.read_text(encoding="latin1") for path, _ in files]
    except OSError as error:
        raise OfclError(f"'{folder}' cannot be read ({error})") from None
    return Part(texts, classes_of([group for _, group in files], groups))
