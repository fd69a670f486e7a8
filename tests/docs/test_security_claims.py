"""Every test that docs/security.md names for a claim exists, and no part of the page names none."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists():
    paths = [*(ROOT / "tests").rglob("test_*.py")]
    # Two folders may have files of the same name: all of them are read.
    texts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    defined = set(re.findall(r"^def (test_\w+)\(", texts, re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 80
    assert sorted(named - defined) == []
    folders = set(re.findall(r"`(tests/[\w/]+(?:\.py)?)/?`", PAGE))
    assert [path for path in sorted(folders) if not (ROOT / path).exists()] == []
    files = set(re.findall(r"`(?:tests/[\w/]+/)?(test_\w+\.py)`", PAGE))
    assert sorted(files - {path.name for path in paths}) == []


def test_every_row_of_the_tables_of_claims_names_a_test():
    rows = 0
    for table in re.findall(r"^\|.*\| test \|\n(?:\|.*\n)+", PAGE, re.MULTILINE):
        for row in table.splitlines()[2:]:
            rows += 1
            assert "`test_" in row.rstrip(" |").rpartition(" | ")[2], row
    assert rows > 70


def test_every_part_of_the_page_names_tests():
    title, *parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    assert title.startswith("# Security")
    without = [part.partition("\n")[0] for part in parts if "`test_" not in part]
    assert without == ["Not protected"]
