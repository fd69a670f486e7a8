"""A feed of lines of JSON, from a file or a pipe such as standard input."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping
from typing import IO

from ofcl.data.live.sample import Sample, StreamError
from ofcl.data.live.sample_reader import SampleReader
from ofcl.data.options import Reading
from ofcl.errors import OfclError
from ofcl.state import State

WINDOWS = os.name == "nt"
SOURCE = "standard input"
CHUNK = 65536  # bytes that are read of a pipe at once


class JsonLines:
    """A feed of samples as lines of JSON, from a file or a pipe.

    A file is read from the first line that was not learned. A pipe continues with its next line;
    bytes that were read from it and are in no sample yet are kept in the attribute `known`.

    Args:
        file: The file or pipe, opened for reading bytes.
        how: The options of reading: which columns are the label, the text, the numbers.
        task: The column whose value changes when a task ends; None: there is none.

    Raises:
        OfclError: If it is a pipe on Windows, where a pipe cannot be asked whether it has more.
    """

    def __init__(self, file: IO[bytes], how: Reading, task: str | None = None) -> None:
        self._file, self._how, self._task = file, how, task
        self.rereads = file.seekable()
        if WINDOWS and not self.rereads:
            raise OfclError(
                "a pipe cannot be learned from on Windows; write the lines to files in a folder "
                "and learn from --stream watch:FOLDER, or give a file: ofcl run --stream - < FILE"
            )
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """Yields a list with the sample of each line, and [] while a pipe has no complete line.

        Args:
            taken: For each source, the number of its rows that were learned already; the only
                source is `standard input`.

        Raises:
            StreamError: The file has fewer lines than were learned, or the pipe has none after
                them.
        """
        reader = SampleReader(self._how, self._task, self.known)
        start = taken.get(SOURCE, 0)
        row = 0 if self.rereads else start
        for line in self._lines_of_file() if self.rereads else self._lines_of_pipe():
            if line is None:
                yield []
                continue
            if row >= start and line.strip():
                yield [reader.read_line(line, SOURCE, row)]
            row += 1
        if start and row <= start and (row < start or not self.rereads):
            raise StreamError(
                f"standard input has nothing behind the {start} lines that were learned; give it "
                "what comes next, for example: tail -f FILE | ofcl resume DIRECTORY; if that was "
                "all, an empty line: echo | ofcl resume DIRECTORY"
            )

    def _lines_of_file(self) -> Iterator[bytes]:
        """Yields all lines of the file from its beginning."""
        self._file.seek(0)
        for line in self._file:  # noqa: UP028 (it would close the file with the generator)
            yield line

    def _lines_of_pipe(self) -> Iterator[bytes | None]:
        """Yields the lines of a pipe without waiting; None while there is no complete line.

        Reads from the file descriptor: a thread that waits in a buffered file cannot be stopped.
        """
        descriptor = self._file.fileno()
        left = self.known.get("left", "").encode("latin1")
        while True:
            *lines, left = left.split(b"\n")
            for n, line in enumerate(lines):
                self.known["left"] = b"\n".join([*lines[n + 1 :], left]).decode("latin1")
                yield line
            if not select.select([descriptor], [], [], 0)[0]:
                yield None
                continue
            more = os.read(descriptor, CHUNK)
            if not more:
                self.known["left"] = ""
                if left:
                    yield left
                return
            left += more
            self.known["left"] = left.decode("latin1")
