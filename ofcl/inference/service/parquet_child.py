"""Reads a Parquet file of a stranger in a process of its own, which may use little memory and time.

A small Parquet file can say that it unpacks to any size, and the reader believes it. So the service
runs this file as a script: the file on standard input, the columns and the most rows as arguments;
the rows come as lines of JSON on standard output. It imports nothing of ofcl, to start fast.
"""

from __future__ import annotations

import io
import json
import sys

MOST_MEMORY = 2**29
MOST_OUTPUT = 64 * 2**20
MOST_SECONDS = 5
WRONG, MISSING = 3, 4
"""Exit codes: it cannot be read as Parquet; a column is missing, whose name is printed."""


def main(columns: list[str], most: int) -> int:
    """Prints the first rows of the file on standard input.

    Args:
        columns: The columns that are printed.
        most: The number of rows after which reading stops.

    Returns:
        The exit code.
    """
    import resource

    import pyarrow
    from pyarrow import parquet

    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        file = parquet.ParquetFile(io.BytesIO(sys.stdin.buffer.read()))
        names = file.schema_arrow.names
        if missing := [column for column in columns if column not in names]:
            print(json.dumps([missing[0], ", ".join(names)[:200]]))
            return MISSING
        rows = written = 0
        for batch in file.iter_batches(batch_size=16, columns=columns, use_threads=False):
            if batch.nbytes > MOST_OUTPUT:  # as Python's objects it would be far more
                return WRONG
            for row in batch.to_pylist():
                line = json.dumps(row, default=str) + "\n"
                rows, written = rows + 1, written + len(line)
                if written > MOST_OUTPUT:
                    return WRONG
                sys.stdout.write(line)
                if rows == most:
                    return 0
    except Exception:  # of Arrow, of memory; the service says the same of all
        return WRONG
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), int(sys.argv[2])))
