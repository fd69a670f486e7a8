"""Makes the small data of docs/recipe.md: tables, a folder of images, texts of 77 classes.

    python scripts/small_data.py DATA OUT

DATA has `20newsgroups-minilm.npz`, `dbpedia-minilm.npz` (x_train, y_train, x_test, y_test)
and `tissuemnist.npz` (MedMNIST). OUT gets `wine.csv`, `cancer.csv`, `digits300.csv` (column
`label`), the folder `tissue150`, and `n77.npz`. Needs scikit-learn and Pillow.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

TABLES = {
    "wine": (load_wine, 178),
    "cancer": (load_breast_cancer, 300),
    "digits300": (load_digits, 300),
}
"""Tables of scikit-learn, and how many rows are drawn of each."""


def write_clusters(data: Path, out: Path, draw: np.random.Generator) -> None:
    """Writes vectors of texts with their 77 clusters as classes.

    Args:
        data: The folder of the embeddings.
        out: The folder that gets the file.
        draw: Draws the samples that are used.
    """
    news, dbpedia = (np.load(data / f"{name}-minilm.npz") for name in ("20newsgroups", "dbpedia"))
    parts = [source[part] for part in ("x_train", "x_test") for source in (news, dbpedia)]
    x = np.concatenate(parts).astype(np.float32)
    clusters = MiniBatchKMeans(77, random_state=0, n_init=3, batch_size=2048)
    y = clusters.fit_predict(x)
    rows = draw.permutation(len(x))[:13083]
    train, test = rows[:10003], rows[10003:]
    np.savez(out / "n77.npz", x_train=x[train], y_train=y[train], x_test=x[test], y_test=y[test])


def write_images(data: Path, out: Path, draw: np.random.Generator) -> None:
    """Writes 150 images of each class of TissueMNIST as folders of PNG files.

    Args:
        data: The folder of `tissuemnist.npz`.
        out: The folder that gets the folder of images.
        draw: Draws the images.
    """
    tissue = np.load(data / "tissuemnist.npz")
    classes = tissue["train_labels"].ravel()
    for number in range(8):
        folder = out / "tissue150" / f"class{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for row in draw.permutation(np.flatnonzero(classes == number))[:150]:
            Image.fromarray(tissue["train_images"][row]).save(folder / f"{row}.png")


def write_tables(out: Path, draw: np.random.Generator) -> None:
    """Writes rows of scikit-learn's tables as CSV files.

    Args:
        out: The folder that gets the files.
        draw: Draws the rows.
    """
    for name, (load, most) in TABLES.items():
        table = load()
        rows = draw.permutation(len(table.target))[:most]
        lines = [",".join([*(f"c{n}" for n in range(table.data.shape[1])), "label"])]
        for row in rows:
            numbers = [repr(float(value)) for value in table.data[row]]
            lines.append(",".join([*numbers, f"k{table.target[row]}"]))
        (out / f"{name}.csv").write_text("\n".join(lines) + "\n")


def main(data: str, out: str) -> None:
    """Writes all of them.

    Args:
        data: The folder of the source files.
        out: The folder that gets the small data.
    """
    draw, folder = np.random.default_rng(0), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_clusters(Path(data), folder, draw)
    write_images(Path(data), folder, draw)
    write_tables(folder, draw)


if __name__ == "__main__":
    main(*sys.argv[1:])
