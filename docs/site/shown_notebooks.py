"""A hook of MkDocs: the notebooks of examples/ as pages, with what they showed."""

from pathlib import Path

import nbformat
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def page(path):
    """Turns a notebook into a page; pictures are inside it.

    Args:
        path: The path of the notebook.
    """
    notebook = nbformat.read(path, as_version=4)
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(notebook)
    for name, data in resources.get("outputs", {}).items():
        text = text.replace(f"({name})", f"({name.replace('output', path.stem)})")
        yield name.replace("output", path.stem), data
    source = f"\n\n*This page is the notebook `examples/{path.name}`.*\n"
    yield f"{path.stem}.md", (text + source).encode()


def on_files(files, config):
    """Adds a page for each notebook, and its pictures."""
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        for name, content in page(path):
            file = File.generated(config, f"notebooks/{name}", content=content)
            files.append(file)
    return files
