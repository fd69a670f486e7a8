"""The tests that docs/security.md names for its claims are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_on_security_names_exists():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    functions = set(re.findall(r"`(test_\w+)`", page))
    files = set(re.findall(r"`(?:tests/[\w/]+/)?(test_\w+\.py)`", page))
    sources = list((ROOT / "tests").rglob("test_*.py"))
    written = {
        name
        for path in sources
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(functions) > 15
    assert functions - written == set()
    assert files - {path.name for path in sources} == set()
    folders = re.findall(r"`(tests/[\w/]+/)`", page)
    assert folders
    assert all((ROOT / folder).is_dir() for folder in folders)
