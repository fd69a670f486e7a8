"""Json lines."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping
from typing import IO

from ofcl.data.live.sample import Sample, StreamError
from ofcl.data.live.sample_reader import SampleReader
from ofcl.data.options import Reading
from ofcl.state import State


class JsonLines:
    """Samples as lines of JSON, from a file or a pipe.

    A file is opened again where it was. A pipe brings what comes next; what was read of it and not
    yet handed out is kept.
    """

    def __init__(self, file: IO[bytes], how: Reading, task: str | None = None) -> None:
        self._file, self._how, self._task = file, how, task
        self.rereads = file.seekable()
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """The samples of the lines, as they come."""
        source = "standard input"
        rows, start = SampleReader(self._how, self._task, self.known), taken.get(source, 0)
        row = 0 if self.rereads else start
        for line in self._again() if self.rereads else self._piped():
            if line is None:
                yield []
                continue
            if row >= start and line.strip():
                yield [rows.of_line(line, source, row)]
            row += 1
        if start and row <= start and (row < start or not self.rereads):
            raise StreamError(
                f"standard input has nothing behind the {start} lines that were learned; give it "
                "what comes next, for example: tail -f FILE | ofcl resume DIRECTORY; if that was "
                "all, an empty line: echo | ofcl resume DIRECTORY"
            )

    def _again(self) -> Iterator[bytes]:
        self._file.seek(0)
        yield from self._file

    def _piped(self) -> Iterator[bytes | None]:
        """Lines of a pipe without waiting for them: None where there is none yet.

        Read from the descriptor: a thread that waits in a buffered file cannot be stopped.
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
            more = os.read(descriptor, 65536)
            if not more:
                self.known["left"] = ""
                if left:
                    yield left
                return
            left += more
            self.known["left"] = left.decode("latin1")
