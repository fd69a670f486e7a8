"""Datasets in the layout of the Hugging Face hub."""

import pyarrow
import pyarrow.parquet
import pytest
import torch

from ofcl import OfclError
from tests.support.own_images import paint


def test_the_hub_as_a_local_folder(tmp_path, read, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "hub").mkdir()
    for part, rows in (("train", [1, 2, 3]), ("test", [4])):
        table = pyarrow.table(
            {"v": [[row, 0.5] for row in rows], "label": ["b", "a", "b"][: len(rows)]}
        )
        pyarrow.parquet.write_table(table, tmp_path / "hub" / f"{part}.parquet")
    data = read(f"hf:{tmp_path / 'hub'}")
    assert data.x_train.tolist() == [[1, 0.5], [2, 0.5], [3, 0.5]]
    assert (data.x_test.tolist(), data.labels) == ([[4, 0.5]], ("a", "b"))
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([1, 0, 1], [1])
    assert (data.name, data.source) == ("hub", f"hf:{tmp_path / 'hub'}")


def test_images_of_the_hub(tmp_path, read, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    for i, value in enumerate([3, (10, 20, 30), 5]):
        paint(tmp_path / f"{i}.png", value, (2, 3), "RGB" if i == 1 else "L")
    files = [(tmp_path / f"{i}.png").read_bytes() for i in range(3)]
    rows = {
        "image": [{"bytes": f, "path": None} for f in [*files, files[0][:40]]],
        "class": [0, 1, 0, 1],
    }
    features = datasets.Features(
        {"image": datasets.Image(), "class": datasets.ClassLabel(names=["no", "yes"])}
    )
    (tmp_path / "hub").mkdir()
    made = datasets.Dataset.from_dict(rows, features=features)
    made.to_parquet(tmp_path / "hub" / "train.parquet")
    with pytest.raises(OfclError, match=r"hub \(train\), row 4' cannot be read as an image"):
        read(f"hf:{tmp_path / 'hub'}")
    data = read(f"hf:{tmp_path / 'hub'}", on_bad="skip", test_share=0.3)
    x, y = torch.cat([data.x_train, data.x_test]), torch.cat([data.y_train, data.y_test])
    assert data.shape == (3, 3, 2)  # one in colour: all are
    assert sorted((x[:, :, 0, 0].tolist()[i], y[i].item()) for i in range(3)) == [
        ([3, 3, 3], 0), ([5, 5, 5], 0), ([10, 20, 30], 1),
    ]  # fmt: skip
    assert "1 left out" in data.notes[0]
