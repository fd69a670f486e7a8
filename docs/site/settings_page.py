"""A hook of MkDocs: the page of all settings, written from their schema.

Every setting has its meaning, its values, its default by protocol, and who decides it in a
federation. The groups are the comments of `ofcl/settings/schema.py`.
"""

import inspect
import re
import typing

from ofcl.settings.files import PROTOCOLS, preset
from ofcl.settings.rules import AT_PARTY, DATASETS_ONLY, STREAMS_ONLY
from ofcl.settings.schema import Settings

HEAD = """# Settings

Every setting can be given in a settings file (TOML), with `--set NAME=VALUE`, or as an argument of
`ofcl.run`; many have an option of their own (`ofcl run --help`). A value that is given comes first,
then what the paper sets for the dataset, then the protocol's, then the default. Where protocols
differ, the defaults are those of `strong`, `sound` and `published`. *fitted*: the protocol leaves
the setting to the data ([recipe](recipe.md)). *Party*: each party of a federation decides it for
itself; the server never sends it.

"""


def groups():
    """Lists the groups of settings: a title, and the names of its settings."""
    found, title = {}, ""
    for line in inspect.getsource(Settings).splitlines():
        if comment := re.match(r"    # (.+)", line):
            title = comment.group(1)
        elif field := re.match(r"    (\w+): .*= Field\(", line):
            found.setdefault(title, []).append(field.group(1))
    return found


def values_of(name):
    """Says which values a setting takes: its names, or its type with bounds."""
    field = Settings.model_fields[name]
    if typing.get_origin(field.annotation) is typing.Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(field.annotation))
    kind = str(field.annotation).removeprefix("<class '").removesuffix("'>")
    words = {"str": "text", "int": "whole number", "float": "number", "bool": "`true`, `false`"}
    plain = kind.replace(" | None", "").replace("tuple[str, ...]", "names")
    bounds = [
        f"{sign} {getattr(bound, name)}"
        for bound in field.metadata
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
        if hasattr(bound, name)
    ]
    unset = " or unset" if "None" in kind else ""
    return " ".join([words.get(plain, plain) + unset, ", ".join(bounds)]).strip()


def default_of(name, protocol):
    """Gives the value that a setting has under a protocol if nobody gives one."""
    values = preset(protocol)
    if name in values.get("fit", ()):
        return "*fitted*"
    value = values.get(name, Settings.model_fields[name].default)
    if value is None or value == () or value == "":
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{', '.join(value) if isinstance(value, (list, tuple)) else value}`"


def row(name):
    """Writes the line of the table for a setting."""
    meaning = (Settings.model_fields[name].description or "").replace("|", "\\|")
    where = [
        word
        for word, names in (
            ("party", AT_PARTY),
            ("streams only", STREAMS_ONLY),
            ("datasets only", DATASETS_ONLY),
        )
        if name in names
    ]
    defaults = [default_of(name, protocol) for protocol in PROTOCOLS]
    shown = defaults[0] if len(set(defaults)) == 1 else " / ".join(defaults)
    return f"| `{name}` | {meaning} | {values_of(name)} | {shown} | {', '.join(where)} |"


def text():
    """Writes the whole page."""
    parts = [HEAD]
    for title, names in groups().items():
        lines = [row(name) for name in names]
        parts.append(
            f"## {title}\n\n| setting | meaning | values | default | where |\n"
            "| --- | --- | --- | --- | --- |\n" + "\n".join(lines) + "\n"
        )
    return "\n".join(parts)


def on_files(files, config):
    """Adds the page to the site."""
    from mkdocs.structure.files import File  # the tests read this page without MkDocs

    files.append(File.generated(config, "settings.md", content=text()))
    return files
