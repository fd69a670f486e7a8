"""The notebooks run from beginning to end, and were committed with what they show."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.ipynb"))


def shown(notebook):
    """What each cell shows, but for what it prints to the terminal: kinds of output."""
    return [
        [sorted(output.get("data", {})) for output in cell.outputs
         if output.output_type != "stream"]
        for cell in notebook.cells if cell.cell_type == "code"
    ]  # fmt: skip


LONG = ("parties", "forget")  # other processes
CASES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in LONG else [])
    for path in NOTEBOOKS
]


@pytest.mark.parametrize("path", CASES)
def test_a_notebook_runs_and_shows_what_was_committed(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    before = shown(notebook)
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert any(outputs), "it was committed without outputs"
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    assert shown(notebook) == before
