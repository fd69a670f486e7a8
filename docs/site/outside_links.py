"""A hook of MkDocs: links from the docs to files of the repository outside docs/.

On the site there is no such file. If the site knows its repository (`repo_url`, from the variable
OFCL_REPOSITORY), the link leads there; otherwise the text stays and the link goes.
"""

import os
import re

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)]*)\)")


def on_config(config):
    """Takes the repository's address from the environment."""
    config.repo_url = config.repo_url or os.environ.get("OFCL_REPOSITORY") or None
    return config


def on_page_markdown(markdown, page, config, **_):
    """Rewrites the links of a page that leave docs/."""
    depth = page.file.src_uri.count("/")

    def rewritten(match):
        text, target = match.groups()
        ups = target.count("../")
        if ups <= depth:
            return match.group(0)
        path = target.replace("../", "")
        return f"[{text}]({config.repo_url}/blob/main/{path})" if config.repo_url else text

    return LINK.sub(rewritten, markdown)
