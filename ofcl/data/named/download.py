"""Downloads of datasets from their authors, with progress and a checksum."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ofcl.errors import OfclError


@dataclass(frozen=True)
class Archive:
    """A file to download; tar and zip files are unpacked, then deleted.

    Args:
        url: Its address.
        checksum: The algorithm and the digest, as in `md5:0123…`.
        name: Its name in the data folder.
    """

    url: str
    checksum: str
    name: str


def fetch(archive: Archive, root: Path) -> None:
    """Downloads an archive into the data folder and unpacks it there.

    Files get their final names only when they are complete and the checksum is right.

    Args:
        archive: The archive.
        root: The data folder.

    Raises:
        OfclError: The download fails, and the message says why.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = pooch.retrieve(
            archive.url,
            known_hash=archive.checksum,
            fname=archive.name,
            path=root,
            downloader=pooch.HTTPDownloader(progressbar=_bar(), timeout=30),
        )
        _unpack(Path(path), root)
    except Exception as error:  # of the network, the server, the disk, the archive
        reason = str(error).strip().split("\n")[0]
        raise OfclError(f"it cannot be downloaded ({reason[:200]})") from None


def _unpack(path: Path, root: Path) -> None:
    """Unpacks a tar or zip file into the data folder and deletes it; other files stay as they are.

    It unpacks into a hidden folder, then renames: files with their final names are complete.

    Args:
        path: The downloaded file.
        root: The data folder.
    """
    import tarfile
    import zipfile

    beside = root / f".{path.name}.partial"
    shutil.rmtree(beside, ignore_errors=True)
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(beside, filter="data")
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            archive.extractall(beside)
    else:
        return
    for unpacked in beside.iterdir():
        shutil.rmtree(root / unpacked.name, ignore_errors=True)
        unpacked.rename(root / unpacked.name)
    beside.rmdir()
    path.unlink()


class _Bar:
    """A progress bar for pooch, drawn by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._progress.add_task("download", total=None)
        self.total: int | None = None

    def update(self, amount: int) -> None:
        """Adds downloaded bytes to the bar.

        Args:
            amount: The number of bytes since the last call.
        """
        self._progress.start()
        self._progress.update(self._task, advance=amount, total=self.total)

    def reset(self) -> None:
        """Starts anew; pooch calls this before it fills the bar."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Stops drawing the bar."""
        self._progress.stop()


def _bar() -> _Bar | bool:
    """Returns a progress bar; False, for none, if standard error is not a terminal."""
    return _Bar() if sys.stderr.isatty() else False
