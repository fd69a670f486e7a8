"""Makes ofcl/data/fashion-mini.npz: the first 600 train and 100 test images of every class.

The source is Fashion-MNIST in its official idx files, for example from Debian's package
`dataset-fashion-mnist` (apt-get install dataset-fashion-mnist):

    python scripts/make_fashion_mini.py /usr/share/datasets/fashion-mnist
"""

import gzip
import sys
from pathlib import Path

import numpy as np

SIZES = {"train": 600, "t10k": 100}  # images of each class, by the names of the official files


def read_idx(path: Path) -> np.ndarray:
    """Reads a gzipped idx file: a magic number, the sizes, then the values as unsigned bytes.

    Args:
        path: The file.
    """
    raw = gzip.decompress(path.read_bytes())
    dimensions = raw[3]
    shape = np.frombuffer(raw, ">u4", dimensions, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def first_of_each_class(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads the first images of every class and their classes, in the order of the file.

    Args:
        folder: The folder of the official files.
        part: Which files: `train` or `t10k`.
    """
    x = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    y = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    rows = np.sort(np.concatenate([np.flatnonzero(y == c)[: SIZES[part]] for c in range(10)]))
    return x[rows], y[rows]


def main(folder: str, target: str = "ofcl/data/fashion-mini.npz") -> None:
    """Writes the file of the small dataset, and prints its size.

    Args:
        folder: The folder of the official files.
        target: The file to be written.
    """
    x_train, y_train = first_of_each_class(Path(folder), "train")
    x_test, y_test = first_of_each_class(Path(folder), "t10k")
    np.savez_compressed(target, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    print(
        f"{target}: {len(y_train)} train, {len(y_test)} test, {Path(target).stat().st_size} bytes"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
