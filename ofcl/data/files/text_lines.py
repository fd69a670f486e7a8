"""Lines of text files, compressed or not, in UTF-8 or UTF-16, each with its number."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ofcl.errors import OfclError


@contextmanager
def _open_zip(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """Opens the only file in a zip archive."""
    with zipfile.ZipFile(path) as archive:
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        if len(names) != 1:
            raise OfclError(f"'{path}' has {len(names)} files in it; expected one table")
        with archive.open(names[0]) as file:
            yield io.BufferedReader(file)  # type: ignore[type-var]


OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_zip,
}
"""Functions that open packed files, by the ending of their names."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(path: Path, western: bool = False) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text file, compressed or not, each with its number, counted from 1.

    Args:
        path: The file, in UTF-8 or UTF-16.
        western: Whether the file may be in Windows-1252 (Latin-1) instead, as old spreadsheets
            write. It is taken for that at its first line that is not UTF-8, unless an earlier
            line has letters in UTF-8.

    Raises:
        OfclError: The file cannot be read, or a line is not text.
    """
    with open_unpacked(path) as file:
        start = file.peek(2)[:2] if hasattr(file, "peek") else b""
        if start in _UTF16:
            # Not a codecs reader, for which a line also ends at marks that texts have inside.
            with io.TextIOWrapper(file, "utf-16", newline="\n") as texts:
                for number, text in enumerate(texts, 1):
                    yield number, _without_zeros(path.name, number, text)
            return
        yield from decode_lines(path.name, file, western=western)


def decode_lines(
    name: str, lines: Iterable[bytes], first: int = 1, *, western: bool = False
) -> Iterator[tuple[int, str]]:
    """Yields lines as texts, each with its number.

    Args:
        name: The name of the file, for messages.
        lines: The lines, in UTF-8.
        first: The number of the first of them.
        western: Whether they may be in Windows-1252 (Latin-1) instead; see `read_lines`.

    Raises:
        OfclError: A line is not text.
    """
    in_utf8 = in_western = False
    for number, raw in enumerate(lines, first):
        if western and not in_utf8 and not raw.isascii():
            in_western = in_western or not is_utf8(raw)
            in_utf8 = not in_western
        if in_western:
            yield number, _without_zeros(name, number, _decode_western(raw))
        else:
            yield number, decode_line(name, number, raw)


def is_utf8(raw: bytes) -> bool:
    """Says whether bytes are a text in UTF-8.

    Args:
        raw: The bytes.
    """
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _decode_western(raw: bytes) -> str:
    """Decodes Windows-1252; the five bytes that it does not use are taken as Latin-1 has them."""
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def decode_line(name: str, number: int, raw: bytes) -> str:
    """Decodes a line of UTF-8.

    Args:
        name: The name of the file, for messages.
        number: The number of the line, counted from 1; the first may have a byte order mark.
        raw: The bytes of the line.

    Raises:
        OfclError: The line is not UTF-8, or has a zero byte in it.
    """
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise OfclError(
            f"'{name}', line {number}: byte 0x{raw[error.start]:02x} is not UTF-8; convert the "
            "file, for example with: iconv -f latin1 -t utf-8"
        ) from None
    return _without_zeros(name, number, text)


def _without_zeros(name: str, number: int, text: str) -> str:
    """Returns a line as it is; raises an error if it has a zero byte in it.

    Args:
        name: The name of the file, for the message.
        number: The number of the line, counted from 1.
        text: The line.
    """
    if "\0" in text:
        raise OfclError(
            f"'{name}', line {number}: a zero byte, which no text has; the file is damaged, or "
            "convert it, for example with: iconv -f utf-16le -t utf-8"
        )
    return text


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading bytes; decompresses it if its name says that it is compressed.

    Args:
        path: The file.

    Raises:
        OfclError: The file cannot be read, or is damaged.
    """
    try:
        with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)
        raise OfclError(f"'{path}' cannot be read ({reason})") from None
    except (EOFError, zlib.error, lzma.LZMAError, UnicodeError, zipfile.BadZipFile) as error:
        raise OfclError(f"'{path}' is damaged ({error})") from None
