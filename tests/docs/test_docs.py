"""What the README says works as it stands there."""

import re
from pathlib import Path

import pytest

from ofcl.methods import METHODS
from ofcl.settings.schema import Settings

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{n}")
    for page in PAGES
    for n, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_examples_run(block):
    exec(compile(block, "example", "exec"), {})


def test_there_are_examples():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_setting_that_the_docs_set_exists():
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"--set ([a-z_]+)=", text))
    assert named
    assert named <= set(Settings.model_fields)


def test_every_method_is_on_a_page():
    text = (ROOT / "docs" / "methods" / "README.md").read_text()
    assert all(f"`{name}`" in text for name in METHODS)
