"""Makes data like CIFAR-100 of CIFAR-10: each class is divided into ten, by what its images show.

    python scripts/hundred_classes.py DATA OUT

DATA has the folder `cifar-10-batches-py`. OUT gets the folder `cifar-100-python` in the official
layout, so that `ofcl run --dataset cifar100 --set data_root=OUT` reads it: the same 60,000 images,
a hundred classes of 500 train images on average. The ten parts of a class are clusters (k-means) of
its train images. Their features are the directions of edges and the hues in the cells of a grid.
These do not change with brightness, contrast or a flip: augmentation leaves the classes as they
are. A test image is of the part whose centre is nearest.
"""

import pickle
import sys
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

PARTS = 10  # of each class
CELLS = 4  # rows and columns of the grid
DIRECTIONS = 8
COMPONENTS = 24  # of the features, by which images are compared


def edges(grey: np.ndarray) -> np.ndarray:
    """Sums up the strength of edges in each cell and direction, divided by the image's whole.

    Args:
        grey: The images (n, 32, 32).

    Returns:
        The sums (n, cells, cells, directions).
    """
    down, right = np.gradient(grey, axis=(1, 2))
    strength, angle = np.hypot(down, right), np.arctan2(down, right) % np.pi
    direction = np.minimum((angle / np.pi * DIRECTIONS).astype(int), DIRECTIONS - 1)
    each = np.where(direction[..., None] == np.arange(DIRECTIONS), strength[..., None], 0)
    sums = by_cell(each).sum((2, 4))
    return sums / (sums.sum((1, 2, 3), keepdims=True) + 1e-6)


def by_cell(values: np.ndarray) -> np.ndarray:
    """Cuts images (n, 32, 32, k) into the cells of a grid, (n, cells, rows, cells, columns, k).

    Args:
        values: The images, or what was computed for each of their pixels.
    """
    side = values.shape[1] // CELLS
    return values.reshape(len(values), CELLS, side, CELLS, side, values.shape[-1])


def hues(images: np.ndarray) -> np.ndarray:
    """Measures each cell's colours less its grey, divided by the image's deviation.

    Args:
        images: The images (n, 32, 32, 3).

    Returns:
        Three numbers for each cell (n, cells, cells, 3).
    """
    means = by_cell(images).mean((2, 4))
    colour = means - means.mean(-1, keepdims=True)
    return colour / (images.std((1, 2, 3))[:, None, None, None] + 1e-6)


def features(data: np.ndarray) -> np.ndarray:
    """Computes the features of images, the same for an image and its mirror image.

    Args:
        data: The rows of a CIFAR file (n, 3072).
    """
    images = data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32) / 255
    both = []
    for seen in (images, images[:, :, ::-1]):
        parts = [edges(seen.mean(-1)), hues(seen)]
        parts = [part.reshape(len(seen), -1) for part in parts]
        both.append(np.concatenate([part / part.std() for part in parts], 1))
    return both[0] + both[1]


def read(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Reads the images (n, 3072) and classes (n,) of CIFAR-10's files.

    Args:
        paths: The files, one after the other.
    """
    files = [pickle.loads(path.read_bytes(), encoding="bytes") for path in paths]
    data = np.concatenate([file[b"data"] for file in files])
    return data, np.concatenate([file[b"labels"] for file in files])


def divide(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Divides each class into parts.

    Args:
        train: Images (n, 3072) and classes (n,).
        test: The same of the test images.

    Returns:
        The new classes of train and test images: part p of class c is 10 c + p.
    """
    pca = PCA(COMPONENTS, random_state=0).fit(features(train[0]))
    seen, tested = (pca.transform(features(part[0])) for part in (train, test))
    y, y_test = (np.empty(len(part[1]), dtype=int) for part in (train, test))
    for label in np.unique(train[1]):
        of, of_test = train[1] == label, test[1] == label
        clusters = KMeans(PARTS, n_init=4, random_state=0).fit(seen[of])
        y[of] = PARTS * label + clusters.labels_
        y_test[of_test] = PARTS * label + clusters.predict(tested[of_test])
    return y, y_test


def main(source: str, target: str) -> None:
    """Writes the data.

    Args:
        source: The folder that has `cifar-10-batches-py`.
        target: The folder that gets `cifar-100-python`.
    """
    folder, out = Path(source) / "cifar-10-batches-py", Path(target) / "cifar-100-python"
    train = read([folder / f"data_batch_{n}" for n in range(1, 6)])
    test = read([folder / "test_batch"])
    names = pickle.loads((folder / "batches.meta").read_bytes(), encoding="bytes")[b"label_names"]
    fine = [f"{name.decode()}-{part}".encode() for name in names for part in range(PARTS)]
    out.mkdir(parents=True, exist_ok=True)
    for name, (data, coarse), y in zip(
        ("train", "test"), (train, test), divide(train, test), strict=True
    ):
        parts = {b"data": data, b"fine_labels": y.tolist(), b"coarse_labels": coarse.tolist()}
        (out / name).write_bytes(pickle.dumps(parts))
    meta = {b"fine_label_names": fine, b"coarse_label_names": names}
    (out / "meta").write_bytes(pickle.dumps(meta))
    print(f"100 classes in {out}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit((__doc__ or "").split("\n\n")[1].strip())
    main(*sys.argv[1:])
