"""Makes the links of a README absolute, so that they work where the README stands alone.

    python scripts/absolute_links.py README.md https://HOST/OWNER/ofcl

The package's page on an index shows the README without the repository. `make wheel` does this in
a copy of the tree if OFCL_REPOSITORY says where the repository is.
"""

import re
import sys
from pathlib import Path

PICTURES = (".png", ".svg")


def absolute(text: str, repository: str) -> str:
    """Rewrites relative links of a page in Markdown.

    Args:
        text: The page.
        repository: The address of the repository, without a slash at its end.

    >>> absolute("[a](docs/use.md#x), [b](https://c), ![d](docs/e.png)", "https://h/o")
    '[a](https://h/o/blob/main/docs/use.md#x), [b](https://c), ![d](https://h/o/raw/main/docs/e.png)'
    """

    def link(match: re.Match[str]) -> str:
        target = match.group(1)
        if re.match(r"[a-z]+:|#", target):
            return match.group(0)
        kind = "raw" if target.endswith(PICTURES) else "blob"
        return f"]({repository}/{kind}/main/{target})"

    return re.sub(r"\]\(([^)]+)\)", link, text)


if __name__ == "__main__":
    page, repository = Path(sys.argv[1]), sys.argv[2].rstrip("/")
    page.write_text(absolute(page.read_text(encoding="utf-8"), repository), encoding="utf-8")
