"""The rooms stay rooms: what `docs/design.md` says of the package's layout."""

import ast
import functools
import graphlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "ofcl").rglob("*.py"))


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = [name_of(path) for path in FILES]


@functools.cache
def modules():
    """The parsed modules by name; not at import, as every test process imports this file."""
    return {name_of(path): ast.parse(path.read_text()) for path in FILES}


def imported(statement):
    """The modules of the package that a statement imports."""
    if isinstance(statement, ast.Import):
        return {alias.name for alias in statement.names} & {*NAMES}
    if not isinstance(statement, ast.ImportFrom):
        return set()
    names = {f"{statement.module}.{alias.name}" for alias in statement.names}
    return (names & {*NAMES}) or ({statement.module} & {*NAMES})


def test_few_modules_stand_in_the_hallway():
    assert len([path for path in FILES if path.parent.name == "ofcl"]) - 1 <= 14


def test_few_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    assert len(layers) <= 14
    named = {name.strip() for layer in layers for name in re.split("[|:]", layer)}
    rooms = {name for name in NAMES if name.count(".") == 1}
    assert named == rooms  # a room without a layer could import anything


def test_no_module_imports_itself_over_others():
    imports = {
        name: set().union(*map(imported, tree.body)) - {name} for name, tree in modules().items()
    }
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError with the cycle


def test_no_two_modules_have_one_name():
    names = Counter(path.name for path in FILES if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def documented(tree):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_begin_with_a_verb_or_a_noun(name):
    texts = [ast.get_docstring(node) or "" for node in documented(modules()[name])]
    riddles = [text for text in texts if text.startswith(("What ", "Whether what"))]
    assert riddles == []


@pytest.mark.parametrize("name", [name for name in NAMES if name.count(".") != 1])
def test_every_folder_says_what_lives_there(name):
    path = ROOT / Path(*name.split("."))
    if (path / "__init__.py").exists():
        assert len((ast.get_docstring(modules()[name]) or "").splitlines()) > 1


def test_private_calls_of_pytorch_are_in_one_module():
    callers = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_foreach")
    }
    assert callers == {"ofcl.compute.foreach"}


def test_only_modules_called_so_import_flower():
    importing = [
        str(path.relative_to(ROOT / "ofcl"))
        for path in FILES
        if "from flwr" in path.read_text() or "import flwr" in path.read_text()
    ]
    assert all("flower" in path for path in importing), importing
