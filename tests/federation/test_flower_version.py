"""The Flower that is installed is the one that the adapters are written for."""

import ast
import tomllib
from pathlib import Path

import pytest

import ofcl
from ofcl.federation import flower_check, flower_version

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")

PACKAGE = Path(ofcl.__file__).parent
PUBLIC = ("flwr.app", "flwr.clientapp", "flwr.serverapp")  # what Flower documents for apps


def test_the_installed_flower_is_as_the_adapters_assume():
    broken = flower_check.broken_assumptions()
    assert not broken, (
        f"the adapters are written for Flower {flower_version.VERSION}: install that version "
        "(pip install 'ofcl[flower]'), or mend the adapters as ofcl/federation/flower_version.py "
        "says:\n  " + "\n  ".join(broken)
    )


def test_another_flower_is_pointed_out_in_words(monkeypatch):
    monkeypatch.setattr("flwr.__version__", "2.0.0")
    monkeypatch.setattr(flower_version, "NAMES", {"flwr.app": ("Message", "Letter"), "flwr.x": ()})
    parameters = {"flwr.app:Error": ("code", "mood")}
    monkeypatch.setattr(flower_version, "PARAMETERS", parameters)
    monkeypatch.setattr(flower_version, "ATTRIBUTES", {"flwr.app:Message": ("smell",)})
    fields = {"flwr.proto.control_pb2:StartRunRequest": ("fab", "colour")}
    monkeypatch.setattr(flower_version, "FIELDS", fields)
    monkeypatch.setattr(flower_check, "BEHAVIOURS", {"pigs fly": lambda: False})
    assert flower_check.broken_assumptions() == [
        "Flower 2.0.0 is installed; the adapters are for 1.41.0",
        "flwr.app has no 'Letter'",
        "flwr.x cannot be used (ModuleNotFoundError: No module named 'flwr.x')",
        "flwr.app:Error has no 'mood'",
        "flwr.app:Message has no 'smell'",
        "flwr.proto.control_pb2:StartRunRequest has no 'colour'",
        "it does not hold that pigs fly",
    ]


def test_the_package_asks_for_the_same_version():
    pyproject = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    extras = pyproject["project"]["optional-dependencies"]["flower"]
    assert f"flwr[simulation]=={flower_version.VERSION}" in extras


def imported(path):
    """The names that a file imports from Flower, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
            yield from ((node.module, name.name) for name in node.names)
        if isinstance(node, ast.Import):
            yield from ((n.name, None) for n in node.names if n.name.split(".")[0] == "flwr")


def test_flower_is_imported_by_its_adapters_alone_and_every_name_is_written_down():
    found = {path.relative_to(PACKAGE): list(imported(path)) for path in PACKAGE.rglob("*.py")}
    found = {path: names for path, names in found.items() if names}
    assert len(found) == 12
    for path, names in found.items():
        app = path.parts[:2] == ("federation", "flower_app")
        wall = path.name.startswith("flower_") or path.parts[:2] == ("engines", "flower")
        assert wall or app, f"{path} imports Flower"
        for module, name in names:
            assert not app or module in PUBLIC, f"{path} imports {module}, which is not public"
            known = flower_version.NAMES.get(module)
            assert module == "flwr" or known, f"{path} imports {module}"
            assert name is None or name in known, f"{path} imports {module}.{name}"
