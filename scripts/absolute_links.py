"""Tells a copy of the tree where its repository is: the README's links, and `project.urls`.

    python scripts/absolute_links.py build/tree https://HOST/OWNER/ofcl

The package's page on an index shows the README without the repository, so relative links would lead
nowhere there. `make wheel` does this if OFCL_REPOSITORY says where the repository is.
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


def with_urls(project: str, repository: str) -> str:
    """Adds the table `project.urls` to a pyproject.toml.

    Args:
        project: The text of the file.
        repository: The address of the repository, without a slash at its end.
    """
    urls = {
        "Repository": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    lines = "".join(f'{name} = "{address}"\n' for name, address in urls.items())
    return f"{project}\n[project.urls]\n{lines}"


def main(tree: Path, repository: str) -> None:
    """Rewrites both files of a tree.

    Args:
        tree: The folder of the tree.
        repository: The address of the repository.
    """
    for name, rewritten in (("README.md", absolute), ("pyproject.toml", with_urls)):
        text = (tree / name).read_text(encoding="utf-8")
        (tree / name).write_text(rewritten(text, repository.rstrip("/")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
