"""`ofcl new`: a small package with a part of your own and a test, to start from."""

from __future__ import annotations

import keyword
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ofcl.cli.terminal import say
from ofcl.errors import OfclError, unknown

TEMPLATES = ("method", "model")


def new(
    kind: Annotated[str, typer.Argument(help=f"{' or '.join(TEMPLATES)}.")],
    name: Annotated[str, typer.Argument(help="The name of the part, for example my-method.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to make. [default: ofcl-NAME]")
    ] = None,
) -> None:
    """Write a small package with a method or model of your own, and a test of it."""
    if kind not in TEMPLATES:
        raise unknown("kind of part", kind, TEMPLATES)
    module = name.replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module):
        raise OfclError(f"'{name}' cannot be the name of a part; use letters, digits and -")
    folder = out or Path(f"ofcl-{name}")
    if folder.exists():
        raise OfclError(f"'{folder}' exists; choose another folder with --out")
    values = {"name": name, "module": f"ofcl_{module}", "folder": str(folder)}
    template = files("ofcl.cli").joinpath("templates", kind)
    for source, target in (
        ("pyproject.toml.txt", "pyproject.toml"),
        ("part.py.txt", f"{values['module']}.py"),
        ("test_part.py.txt", f"test_{module}.py"),
    ):
        text = template.joinpath(source).read_text(encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / target).write_text(Template(text).substitute(values), encoding="utf-8")
    say(f"made {folder}. Next:")
    say(f"  pip install -e {folder} && pytest {folder}")
    say(f"  ofcl run demo --{kind} {name}")
