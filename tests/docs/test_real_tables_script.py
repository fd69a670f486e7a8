"""The script that learns real tables beside a batch regression, for docs/data.md."""

import importlib.util
import statistics
from pathlib import Path

import pytest

import ofcl

datasets = pytest.importorskip("sklearn.datasets")
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script():
    path = ROOT / "scripts/real_tables.py"
    spec = importlib.util.spec_from_file_location("real_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "load", "comma", "seeds"),
    [("tumours", "load_breast_cancer", True, 1), ("wines", "load_wine", False, 5),
     ("digits", "load_digits", True, 1)],
)  # fmt: skip
def test_tables_with_categories_gaps_and_dates_are_learned_online(
    script, tmp_path, name, load, comma, seeds
):
    """A of class-incremental tasks is at most ten points behind a batch logistic regression."""
    data = getattr(datasets, load)()
    labels = [str(data.target_names[y]) for y in data.target]
    rows = script.spoilt(name, data.data, labels, comma)
    script.write(tmp_path / "t.csv", rows, ";" if comma else ",")
    found = [ofcl.run(str(tmp_path / "t.csv"), seed=seed).A for seed in range(seeds)]
    assert statistics.mean(found) > script.regression(rows, comma) - 10
