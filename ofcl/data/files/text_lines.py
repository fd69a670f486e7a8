"""Lines of text files, compressed or not, in UTF-8 or UTF-16, each with its number."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ofcl.errors import OfclError

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""Functions that open packed files, by the ending of their names."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text file, compressed or not, each with its number, counted from 1.

    Args:
        path: The file, in UTF-8 or UTF-16.

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
        for number, raw in enumerate(file, 1):
            yield number, decode_line(path.name, number, raw)


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
    except (EOFError, zlib.error, lzma.LZMAError, UnicodeError) as error:
        raise OfclError(f"'{path}' is damaged ({error})") from None
