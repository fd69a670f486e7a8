"""Columns as they are in real tables: numbers in many spellings, categories, dates, gaps."""

import datetime
import math
import random

import numpy as np
import pytest
import torch

from ofcl import OfclError
from ofcl.data.files.column_codes import ColumnCode, read_decimal
from ofcl.data.files.column_facts import ColumnFacts
from ofcl.data.files.column_guesses import Guess
from ofcl.data.files.column_guesses import guess_column as guess_by_facts
from ofcl.data.files.dates import date_format
from ofcl.data.table_code import TableCode

DAY = 86400


def guess_column(name: str, cells: list, named: bool = False) -> Guess:
    """Guesses what a column of these cells is."""
    facts = ColumnFacts(name)
    facts.add(cells)
    return guess_by_facts(facts, named=named)


@pytest.mark.parametrize(
    ("cells", "decimal", "number"),
    [
        (["1.5", "2"], ".", 1.5),
        (["1,5", "2,25"], ",", 1.5),
        (["1.234,5", "7,0"], ",", 1234.5),
        (["1,234", "2,345,678"], ".", 1234),
        (["1,234", "2,345", "0,700"], ",", 1.234),
        (["1,234.5", "3.5", "4.5", "1"], ".", 1234.5),
        (["1 234,5", "2,5"], ",", 1234.5),
        (["1'234.5", "2.5", "3.5"], ".", 1234.5),
        (["-1,5", "+2,5"], ",", -1.5),
    ],
)
def test_numbers_in_many_spellings(cells, decimal, number):
    code = guess_column("a", cells).code
    assert (code.kind, code.decimal) == ("number", decimal)
    assert code.read(cells[0]) == number


@pytest.mark.parametrize("cell", ["abc", "1;5", "1e400", "inf"])
def test_what_is_no_number_is_said(cell):
    with pytest.raises(ValueError, match="column 'a' is"):
        read_decimal(cell, ".", "a")


@pytest.mark.parametrize(
    ("cells", "form", "times"),
    [
        (["2024-02-29", "2023-01-01"], "iso", False),
        (["2024-02-29T12:00:00Z", "2023-01-01T00:00:00+01:00"], "iso", True),
        (["29.02.2024", "01.01.2023"], "%d.%m.%Y", False),
        (["29/02/2024", "01/03/2023"], "%d/%m/%Y", False),
        (["02/29/2024", "01/03/2023"], "%m/%d/%Y", False),
        (["29.02.2024 12:00", "01.01.2023 13:30"], "%d.%m.%Y %H:%M", True),
        ([datetime.date(2024, 2, 29)], "iso", False),
        ([datetime.datetime(2024, 2, 29, 12)], "iso", True),
    ],
)
def test_dates_in_many_spellings(cells, form, times):
    code = guess_column("seen", cells).code
    assert (code.kind, code.format, code.times) == ("date", form, times)
    day = datetime.datetime(2024, 2, 29, 12 if times else 0, tzinfo=datetime.UTC)
    assert code.read(cells[0]) == day.timestamp() / DAY


def test_a_date_becomes_days_and_points_on_circles():
    code = ColumnCode("seen", "date", format="iso", times=True)
    (row,) = code.encode([0.25])  # six in the morning of the first day
    angle = 2 * math.pi * 0.25 / 365.2425
    assert row == pytest.approx([0.25, math.sin(angle), math.cos(angle), 1, 0], abs=1e-12)


@pytest.mark.parametrize(
    ("cells", "form", "part"),
    [
        (["6:00", "17:05"], "%H:%M", 0.25),
        (["18:00:36", "23:59:59"], "%H:%M:%S", 0.75 + 36 / DAY),
        (["6:00 PM", "11:30 AM"], "%I:%M %p", 0.75),
        ([datetime.time(12, 0), datetime.time(3, 30)], "%H:%M:%S", 0.5),
    ],
)
def test_times_of_the_day(cells, form, part):
    code = guess_column("seen", cells).code
    assert (code.kind, code.format, code.width) == ("date", form, 3)
    assert code.read(cells[0]) == pytest.approx(part, abs=1e-12)
    (row,) = code.encode([part])
    angle = 2 * math.pi * part
    assert row == pytest.approx([part, math.sin(angle), math.cos(angle)], abs=1e-12)
    with pytest.raises(ValueError, match="column 'seen' is not a time but 'noon'"):
        code.read("noon")
    assert guess_column("score", ["3:1", "0:2", "3:1", "0:2"]).code.kind == "category"


def test_dates_among_times_and_times_among_dates_are_refused():
    """Excel has a duration of a day or more as a moment."""
    times = guess_column("seen", [datetime.time(9, 30), datetime.time(10, 0, 0, 500000)]).code
    assert (times.kind, times.format) == ("date", "%H:%M:%S")
    for cell in (datetime.datetime(2024, 3, 1, 9, 30), datetime.date(2024, 3, 1)):
        with pytest.raises(ValueError, match="column 'seen' is not a time but"):
            times.read(cell)
    dates = guess_column("seen", ["2024-03-01", "2024-03-02"]).code
    with pytest.raises(ValueError, match="column 'seen' is not a date but '09:30:00'"):
        dates.read(datetime.time(9, 30))


def test_gaps_as_excel_and_pandas_write_them():
    for gap in ("#N/A", "<NA>", "n/a", "NULL", "-"):
        code = guess_column("a", ["1", "2", "3"]).code
        assert code.read(gap) is None


def test_years_are_numbers_and_words_are_no_dates():
    assert guess_column("year", ["1999", "2024"]).code.kind == "number"
    assert date_format(["may", "june"]) is None


def test_truth_values():
    assert guess_column("a", ["yes", "No"]).code.kind == "boolean"
    assert guess_column("a", [True, False]).code.kind == "boolean"
    code = ColumnCode("a", "boolean").fitted([1.0, None])
    assert code.encode([code.read("ja"), code.read("FALSE"), None]).tolist() == [
        [1, 0], [0, 0], [0.5, 1]
    ]  # fmt: skip
    with pytest.raises(ValueError, match="not true or false but 'perhaps'"):
        code.read("perhaps")


def test_rare_and_unknown_categories_share_a_place():
    code = ColumnCode("ward", "category").fitted(["a", "a", "b", "b", "rare", None])
    assert code.categories == ("a", "b")
    assert code.encode(["a", "rare", "never seen", None]).tolist() == [
        [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1],
    ]  # fmt: skip


def test_a_gap_in_a_number_is_filled_and_marked():
    code = ColumnCode("age", "number").fitted([2.0, None, 4.0])
    assert code.encode([None, 5.0]).tolist() == [[3, 1], [5, 0]]
    assert ColumnCode("age", "number", fill=3.0).encode([None]).tolist() == [[3]]  # no gaps so far


@pytest.mark.parametrize(
    ("name", "cells", "left_out"),
    [
        ("patient_id", [f"P{n:03}" for n in range(30)], True),
        ("id", [*range(100, 130)], True),
        ("row", [*range(1, 31)], True),  # it counts the rows
        ("age", [n * n for n in range(30)], False),  # all different, but no count
        ("id", [1, 2, 3], False),  # too few to tell
        ("id", [n % 5 for n in range(30)], False),  # not different
    ],
)
def test_identifiers_are_left_out(name, cells, left_out):
    guess = guess_column(name, cells)
    assert (guess.code is None) == left_out
    assert ("identifier" in guess.why) == left_out
    assert guess_column(name, cells, named=True).code is not None


def test_only_numbers_are_standardised():
    codes = [ColumnCode("n", "number"), ColumnCode("c", "category")]
    code = TableCode.of(codes, [[1.0, "a"], [3.0, "a"], [1.0, "b"], [3.0, "b"]], window=4)
    assert code([[5.0, "b"]]).tolist() == [[3, 0, 1, 0]]
    assert code([]).shape == (0, 4)


TABLE = """\ufeffpatient_id;admitted;age;ward;smoker;crp;note;label
{rows}"""


def hospital(rows=120, seed=0):
    draw = random.Random(seed)
    lines = []
    for n in range(rows):
        ill = n % 2
        crp = (
            ""
            if draw.random() < 0.2
            else f"{draw.gauss(40 if ill else 10, 5):.1f}".replace(".", ",")
        )
        ward = draw.choice(["Süd", "Nord"] if ill else ["West", "Nord"])
        lines.append(f"P{n:04};{1 + n % 28:02}.{1 + n % 12:02}.2024;{draw.randint(20, 90)};{ward};"
                     f"{draw.choice(['ja', 'nein'])};{crp};the patient number {n} was seen here;"
                     f"{'ill' if ill else 'well'}")  # fmt: skip
    return TABLE.format(rows="\n".join(lines))


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_a_table_of_a_hospital_is_read_as_it_is(tmp_path, read, encoding):
    text = hospital() if encoding != "cp1252" else hospital().lstrip("\ufeff")
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    data = read(tmp_path / "t.csv")
    kinds = {code.name: (code.kind, code.gaps) for code in data.form.codes}
    assert kinds == {
        "admitted": ("date", False), "age": ("number", False), "ward": ("category", False),
        "smoker": ("boolean", False), "crp": ("number", True),
    }  # fmt: skip
    wards = next(code for code in data.form.codes if code.name == "ward").categories
    assert wards == ("Nord", "Süd", "West")
    assert data.shape == (3 + 1 + 4 + 1 + 2,)
    (note,) = data.notes
    assert "patient_id (it looks like an identifier)" in note
    assert "note (it is a text)" in note


def test_columns_can_be_named_and_dropped(tmp_path, read):
    (tmp_path / "t.csv").write_text(hospital())
    assert [c.name for c in read(tmp_path / "t.csv", drop=("ward", "age")).form.codes] == [
        "admitted", "smoker", "crp",
    ]  # fmt: skip
    named = read(tmp_path / "t.csv", columns=("ward", "patient_id"))
    assert [code.name for code in named.form.codes] == ["ward", "patient_id"]
    with pytest.raises(OfclError, match="no column 'wards'"):
        read(tmp_path / "t.csv", drop=("wards",))


def test_a_damaged_cell_is_named_by_its_line(tmp_path, read):
    text = hospital().replace(";ja;", ";perhaps;", 1)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "perhaps" in row)
    (tmp_path / "t.csv").write_text(text)
    data = read(tmp_path / "t.csv")  # the column is then one of words
    assert {c.name: c.kind for c in data.form.codes}["smoker"] == "category"
    (tmp_path / "t.csv").write_text(text.replace(";perhaps;", ";ja;").replace("2024;", "2024;x", 1))
    with pytest.raises(OfclError, match=r"'t.csv', line 2: column 'age' is not a number"):
        read(tmp_path / "t.csv")
    assert line > 1


def test_excel(tmp_path, read):
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["seen", "dose", "ward", "label"])
    for n in range(20):
        dose = None if n % 5 == 0 else n / 2
        book.active.append([datetime.datetime(2024, 1, 1 + n), dose, "ab"[n % 2], n % 2])
    book.save(tmp_path / "t.xlsx")
    data = read(tmp_path / "t.xlsx")
    assert [(c.name, c.kind, c.gaps) for c in data.form.codes] == [
        ("seen", "date", False), ("dose", "number", True), ("ward", "category", False),
    ]  # fmt: skip
    assert data.labels == ("0", "1")
    (tmp_path / "bad.xlsx").write_bytes(b"PK no excel")
    with pytest.raises(OfclError, match="'bad.xlsx' cannot be read as an Excel file"):
        read(tmp_path / "bad.xlsx")


def test_a_zipped_table(tmp_path, read):
    import zipfile

    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("t.csv", "a,label\n1,x\n3,y\n")
    assert read(tmp_path / "t.csv.zip").x_train.tolist() == [[-1], [1]]


def test_labels_that_are_one_and_labels_that_look_alike(tmp_path, read):
    (tmp_path / "t.csv").write_text("a,label\n1,1.0\n2,1\n3,2\n4,2.0\n")
    assert read(tmp_path / "t.csv").labels == ("1", "2")
    (tmp_path / "u.csv").write_text("a,label\n1,Cat\n2,cat\n3,dog\n")
    notes = read(tmp_path / "u.csv").notes
    assert any("'Cat', 'cat' differ only in case or spaces" in note for note in notes)


def test_predictions_read_rows_in_the_same_way(tmp_path):
    import ofcl

    (tmp_path / "t.csv").write_text(hospital(rows=200))
    ofcl.run(str(tmp_path / "t.csv"), clients=2, out=tmp_path / "run")
    model = ofcl.load(tmp_path / "run")
    data = ofcl.load_dataset(str(tmp_path / "t.csv"))
    row = {"admitted": "05.06.2024", "age": "70", "ward": "Süd", "smoker": "ja", "crp": "41,5"}
    assert model.predict(row) == "ill"
    assert model.predict({**row, "ward": "West", "crp": "9,5"}) == "well"
    assert model.predict({**row, "ward": "never seen", "crp": ""}) in ("ill", "well")
    assert model.predict(list(row.values())) == "ill"
    with pytest.raises(OfclError, match="column 'crp' is missing"):
        model.predict({name: cell for name, cell in row.items() if name != "crp"})
    header, *lines = (line.split(";") for line in hospital(rows=200).lstrip("\ufeff").splitlines())
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    inputs = model.prepare(rows)
    both = torch.cat([data.x_train, data.x_test])
    assert np.allclose(inputs.sum(0), both.sum(0), atol=1e-3)
