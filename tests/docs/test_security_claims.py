"""Every test that docs/security.md names for a claim exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_test_that_the_page_names_exists():
    page = (ROOT / "docs" / "security.md").read_text()
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    # Two folders may have files of the same name: all of them are read.
    texts = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)\(", texts, re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 15
    assert sorted(named - defined) == []
    paths = set(re.findall(r"`(tests/[\w/]+(?:\.py)?)/?`", page))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert [name for name in re.findall(r"`(test_\w+\.py)`", page) if name not in files] == []


def test_every_row_of_the_tables_of_claims_names_a_test():
    page = (ROOT / "docs" / "security.md").read_text()
    rows = 0
    for table in re.findall(r"^\|.*\| test \|\n(?:\|.*\n)+", page, re.MULTILINE):
        for row in table.splitlines()[2:]:
            rows += 1
            assert "`test_" in row.rstrip(" |").rpartition(" | ")[2], row
    assert rows > 50
