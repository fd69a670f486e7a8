"""A named dataset: its files, its download and its reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ofcl.data.named.download import Archive, fetch
from ofcl.data.raw import Raw
from ofcl.errors import OfclError


@dataclass(frozen=True)
class Source:
    """A named dataset.

    Args:
        summary: Its content in a few words.
        kind: `image` or `text`.
        classes: The official number of classes. `ofcl data check` compares it, and the next two
            numbers, with the files.
        train: The official number of train samples.
        test: The official number of test samples.
        licence: Its licence.
        read: Reads the dataset from the data folder.
        files: The files that `read` needs in the data folder; empty: the dataset is built in.
        alternative: The files of another layout that `read` also knows; empty: there is none.
        archive: The download that its authors publish; None: there is none, and `hub` is used.
        hub: Downloads the files from a hub into the data folder; None: there is an archive, or the
            dataset is built in.
        megabytes: The size of the download.
    """

    summary: str
    kind: str
    classes: int
    train: int
    test: int
    licence: str
    read: Callable[[Path], Raw]
    files: tuple[str, ...] = ()
    alternative: tuple[str, ...] = ()
    archive: Archive | None = None
    hub: Callable[[Path], None] | None = None
    megabytes: int = 0

    def present(self, root: Path) -> bool:
        """Says whether the dataset's files are in the data folder; True for a built-in dataset.

        Args:
            root: The data folder.
        """
        layouts = [files for files in (self.files, self.alternative) if files]
        return not layouts or any(all((root / f).exists() for f in files) for files in layouts)

    def prepare(self, name: str, root: Path, tell: Callable[[str], None]) -> None:
        """Downloads the files if they are missing.

        Args:
            name: The name of the dataset, for messages.
            root: The data folder.
            tell: Called with a line for the user when the download begins.

        Raises:
            OfclError: The download fails; the message says which files to put where by hand.
        """
        if self.present(root):
            return
        tell(f"{name}: downloading about {self.megabytes} MB into {root}")
        try:
            if self.archive is not None:
                fetch(self.archive, root)
            elif self.hub is not None:
                self.hub(root)
        except OfclError as error:
            raise OfclError(f"{name} is not there, and {error}. {self._by_hand(root)}") from None
        if not self.present(root):
            raise OfclError(f"{name}: the download lacks its files. {self._by_hand(root)}")

    def _by_hand(self, root: Path) -> str:
        """Returns a line that tells the user which files to put into the data folder by hand."""
        wanted = ", ".join(self.files)
        if self.alternative:
            wanted += f" (or {', '.join(self.alternative)})"
        where = f", for example from {self.archive.url}" if self.archive else ""
        return f"Without network, put {wanted} into '{root}'{where}; another folder: --data-root"
