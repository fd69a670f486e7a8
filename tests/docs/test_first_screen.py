"""The README's first screen: short, with figures that the pages with their commands have too."""

import re
from pathlib import Path

import pytest

from ofcl.methods import METHODS
from ofcl.settings.schema import Settings

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
FIRST = README.split("## Use it")[0]
MEASURED = "\n".join(
    (ROOT / "docs" / f"{page}.md").read_text() for page in ("recipe", "pretrained")
)


def rows(text, header):
    """The cells of a table's rows, without its header."""
    lines = text[text.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_it_is_short_and_shows_a_picture_that_is_there():
    assert len(FIRST.splitlines()) <= 50
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", FIRST)
    assert (ROOT / picture).is_file()


def test_which_method_is_answered_in_five_lines_with_methods_that_exist():
    answers = rows(FIRST, "| you have | take |")
    assert len(answers) == 5
    named = set(re.findall(r"`(?:--method )?([a-z]+)`", "\n".join(take for _, take in answers)))
    protocols = {"strong", "sound"}
    assert named - protocols <= set(METHODS)
    assert protocols <= set(Settings.model_fields["protocol"].annotation.__args__)


def test_the_number_of_methods_is_that_of_the_package():
    assert f" {len(METHODS)} methods " in FIRST


FIGURES = rows(README, "| data | A | F | all classes at once")


def test_there_are_figures():
    assert len(FIGURES) == 7


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: row[0])
def test_a_figure_stands_in_a_row_of_what_was_measured(row):
    _, *figures = row
    wanted = [number for cell in figures for number in re.findall(r"\d+\.\d", cell)]
    measured = [line.replace("−", "-") for line in MEASURED.splitlines() if line.startswith("|")]
    assert any(all(number in line for number in wanted) for line in measured), wanted


@pytest.mark.parametrize("number", re.findall(r"\d\d\.\d", FIRST.split("From a file")[0]))
def test_a_figure_of_the_first_lines_is_one_of_the_table(number):
    assert any(number in cell for row in FIGURES for cell in row)
