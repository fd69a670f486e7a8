"""The pages of the site: all of them are found, and every setting and command is as it says."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import typer
import yaml

from ofcl.cli.main import app
from ofcl.settings.schema import Settings
from scripts import absolute_links

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = typer.main.get_command(app)


def hook(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def targets(entry):
    """The paths in a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [path for part in parts for path in targets(part)]


def test_every_page_is_in_the_navigation_once():
    # the file names hooks by path and no tags of YAML's, so the safe loader reads it
    named = targets(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "examples").glob("*.ipynb")}
    assert sorted(named) == sorted(pages | notebooks | {"settings.md"})


def test_the_page_of_settings_has_every_one_with_its_default():
    page = hook("settings_page").text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert list(rows) == list(Settings.model_fields)
    assert "`cbr` / `bi` / `bi`" in rows["method"]
    assert "whole number ≥ 1 | `200`" in rows["memory"]
    assert "*fitted* / `3` / `3`" in rows["steps"]
    assert rows["label"].endswith("| party |")


def test_links_that_leave_the_docs_go_to_the_repository_or_become_text():
    class Page:
        class file:
            src_uri = "methods/er.md"

    class Config:
        repo_url = None

    text = "[a](../../ofcl/client.py), [b](../recipe.md), ![c](../../d.png)"
    rewritten = hook("outside_links").on_page_markdown
    assert rewritten(text, Page, Config) == "a, [b](../recipe.md), ![c](../../d.png)"
    Config.repo_url = "https://host.example/o"
    assert "[a](https://host.example/o/blob/main/ofcl/client.py)" in rewritten(text, Page, Config)


def test_a_release_knows_where_its_repository_is(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    absolute_links.main(tmp_path, "https://host.example/o/ofcl/")
    targets = re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text())
    assert "https://host.example/o/ofcl/blob/main/docs/use.md#systems" in targets
    assert all(target.startswith("https://") for target in targets)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Issues"] == "https://host.example/o/ofcl/issues"


def commands(page):
    """The commands of a page that begin with `ofcl`, one a line, without comments and pipes."""
    text = page.read_text().replace("\\\n", " ")
    for line in re.findall(r"^(?:    |\t)(?:.*[|;&] *)?(ofcl .*)$", text, re.MULTILINE):
        words = shlex.split(re.split(r" [|&>;] | && |;", line)[0].replace("…", "X"), comments=True)
        if not any(re.search(r"[{}]", word) for word in words):  # {a,b}: one of several
            yield words[1:]


CASES = [
    pytest.param(words, id=f"{page.name}: {' '.join(words)}"[:90])
    for page in PAGES
    for words in commands(page)
]


@pytest.mark.parametrize("words", CASES)
def test_a_command_of_the_docs_has_options_that_exist(words):
    """Parses it as the command line would, and starts nothing."""
    command, context = COMMAND, click.Context(COMMAND, info_name="ofcl")
    while words and words[0] in {name for param in COMMAND.params for name in param.opts}:
        words = words[1:]  # an option of ofcl itself
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words[0]]
        context = click.Context(command, parent=context, info_name=words[0])
        words = words[1:]
    if "--help" in words or not words:  # or an option of ofcl alone
        return
    assert not isinstance(command, click.Group), f"no such command: {words}"
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in options, word
    given = sum(word == "-" or not word.startswith("-") for word in words)
    required = [p for p in command.params if isinstance(p, click.Argument) and p.required]
    assert given >= len(required)
    for name in re.findall(r"--set (\w+)=", " ".join(words)):
        assert name in Settings.model_fields, name


def test_every_command_is_on_the_page_of_commands():
    page = (ROOT / "docs" / "commands.md").read_text()
    for name, command in COMMAND.commands.items():
        assert command.hidden or f"    ofcl {name} " in page.replace("\n", " \n"), name


def test_commands_are_found():
    assert len(CASES) > 80
