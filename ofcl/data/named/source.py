"""A named dataset: what it is, where its files lie, how they are fetched and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ofcl.data.named.download import Archive, fetch
from ofcl.data.raw import Raw
from ofcl.errors import OfclError


@dataclass(frozen=True)
class Source:
    """A dataset by name; the sizes are the official ones, which `ofcl data check` compares."""

    summary: str
    kind: str  # image or text
    classes: int
    train: int
    test: int
    licence: str
    read: Callable[[Path], Raw]  # from the data folder
    files: tuple[str, ...] = ()  # what `read` needs in the data folder; none: it is built in
    alternative: tuple[str, ...] = ()  # another layout that it also reads
    archive: Archive | None = None  # where its authors publish the files
    hub: Callable[[Path], None] | None = None  # … or how they come from a hub
    megabytes: int = 0  # of the download

    def present(self, root: Path) -> bool:
        """Whether its files are in the data folder."""
        layouts = [files for files in (self.files, self.alternative) if files]
        return not layouts or any(all((root / f).exists() for f in files) for files in layouts)

    def prepare(self, name: str, root: Path, tell: Callable[[str], None]) -> None:
        """Downloads what is missing."""
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
        wanted = ", ".join(self.files) + (
            f" (or {', '.join(self.alternative)})" if self.alternative else ""
        )
        where = f", for example from {self.archive.url}" if self.archive else ""
        return f"Without network, put {wanted} into '{root}'{where}; another folder: --data-root"
