"""Every test that docs/security.md names for a claim exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_test_that_the_page_names_exists():
    page = (ROOT / "docs" / "security.md").read_text()
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    defined = set(re.findall(r"^def (test_\w+)\(", "\n".join(files.values()), re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 15
    assert sorted(named - defined) == []
    paths = set(re.findall(r"`(tests/[\w/]+(?:\.py)?)/?`", page))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert [name for name in re.findall(r"`(test_\w+\.py)`", page) if name not in files] == []
