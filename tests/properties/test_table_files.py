"""Any table, good or damaged: the right rows, or one line that says what is wrong."""

import json
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.own_data import FEW, ON_BAD, RUINED, TABLE, check, folder, outcome, written

LABELS = st.sampled_from(["a", "b", "7", "-1", "ü b", " c ", "a"])
GOOD_CSV = {
    "plain": "{i}{d}{label}", "decimal": "{i}.0{d}{label}", "signed": "+{i}{d}{label}",
    "spaces": "  {i} {d} {label}  ", "quoted": '"{i}"{d}"{label}"', "power": "{i}e0{d}{label}",
}  # fmt: skip


BAD_CSV = {
    "infinite": "-inf{d}{label}", "large": "1e39{d}{label}", "word": "abc{d}{label}",
    "short": "{i}", "long": "{i}{d}{label}{d}x",
    "no label": "{i}{d}", "blank label": '{i}{d}" "', "nan label": "{i}{d}NaN",
    "text after a quote": '"{i}"0{d}{label}', "line break": '{i}{d}"a\nb"',
}  # fmt: skip


@FEW
@given(
    good=st.lists(st.tuples(st.sampled_from([*GOOD_CSV]), LABELS), min_size=5, max_size=12),
    bad=st.lists(st.tuples(st.sampled_from([*BAD_CSV]), LABELS, st.integers(0, 4)), max_size=2),
    blank=st.lists(st.integers(0, 4), max_size=2),
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    last_end=st.booleans(),
    on_bad=ON_BAD,
)
def test_csv(good, bad, blank, delimiter, end, encoding, last_end, on_bad):
    rows = [(GOOD_CSV[kind], label, True) for kind, label in good]
    for kind, label, place in bad:
        rows.insert(place, (BAD_CSV[kind], label, False))
    lines, line, kept, bad_lines = [f"id{delimiter}label"], 1, [], []
    for i, (form, label, fine) in enumerate(rows):
        if i in blank:
            lines.append("")
            line += 1
        text = form.format(i=i, d=delimiter, label=label)
        lines.append(text)
        kept += [(i, label.strip())] if fine else []
        bad_lines += [] if fine else [line + 1]
        line += 1 + text.count("\n")
    content = end.join(lines) + (end if last_end else "")
    with folder() as path:
        (path / "t.csv").write_bytes(content.encode(encoding))
        found = outcome(path / "t.csv", on_bad=on_bad, window=1)
    if not isinstance(found, str):  # by a window of one row, columns are only shifted
        shift = min(i for i, _ in kept) - written(found)[0][0]
        kept = [(i - shift, label) for i, label in kept]
    check(found, kept, bad_lines, on_bad, "t.csv")


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
@pytest.mark.parametrize("kind", RUINED)
def test_ruined_csv(tmp_path, kind, on_bad):
    (tmp_path / "t.csv").write_bytes(RUINED[kind])
    assert isinstance(outcome(tmp_path / "t.csv", on_bad=on_bad, window=2, test_share=0.4), str)


@FEW
@given(st.integers(0, len(TABLE)))
def test_csv_cut_short(end):
    """Whole rows are read as they were; of the last, nobody can know."""
    with folder() as path:
        (path / "t.csv").write_text(TABLE[:end])
        found = outcome(path / "t.csv", on_bad="skip", window=1)
    rows = TABLE[:end].split("\n")[1:]
    whole = [row for row in rows if len(row) == 3]
    assert isinstance(found, str) == (len(whole) < 2)
    if not isinstance(found, str):
        first = written(found)[0][0]
        assert written(found) == [(int(row[0]) + first, row[2]) for row in whole]


@FEW
@given(st.binary(max_size=60), st.sampled_from(["csv", "tsv", "jsonl", "npz", "parquet", "csv.gz"]))
def test_any_bytes(content, suffix):
    with folder() as path:
        (path / f"t.{suffix}").write_bytes(content)
        assert isinstance(outcome(path / f"t.{suffix}"), str)
        (path / f"u.{suffix}").write_bytes(b"id,label\n1,a\n2,b\n" + content)
        outcome(path / f"u.{suffix}", on_bad="skip")


GOOD_JSON = st.sampled_from(["a", "b", 7, -1, 2.0, True, " c ", "7"])
BAD_JSON = [
    '{"x": [1, 2], "label": "a"', '{"x": [1, 2], "label": ', '[[1, 2], "a"]', "7", "null", '"a"',
    '{"x": [1, 2]}', '{"label": "a"}', "{}", '{"x": [], "label": "a"}', '{"x": 3, "label": "a"}',
    '{"x": [1, [2]], "label": "a"}', '{"x": {"a": 1}, "label": "a"}', '{"x": null, "label": "a"}',
    '{"x": [NaN, 1], "label": "a"}', '{"x": [Infinity, 1], "label": "a"}',
    '{"x": [1e39, 1], "label": "a"}', '{"x": [1%s, 1], "label": "a"}' % ("0" * 400),
    '{"x": [1%s, 1], "label": "a"}' % ("0" * 5000), '{"x": ["a", 1], "label": "a"}',
    '{"x": [1, 2, 3], "label": "a"}', '{"x": [1], "label": "a"}', '{"x": [true, 1], "label": "a"}',
    '{"x": [1, 2], "label": null}', '{"x": [1, 2], "label": 0.5}', '{"x": [1, 2], "label": NaN}',
    '{"x": [1, 2], "label": ["a"]}', '{"x": [1, 2], "label": "\\ud800"}', "[" * 100_000,
    '{"x": [1, 2], "label": "a"} {"x": [1, 2], "label": "b"}', "{'x': [1, 2], 'label': 'a'}",
]  # fmt: skip


@FEW
@given(
    good=st.lists(GOOD_JSON, min_size=6, max_size=12),
    bad=st.lists(st.tuples(st.sampled_from(BAD_JSON), st.integers(0, 5)), max_size=3),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    on_bad=ON_BAD,
)
def test_jsonl(good, bad, encoding, on_bad):
    rows = [json.dumps({"x": [i, 0.5], "label": label}) for i, label in enumerate(good)]
    fine = set(rows)
    for text, place in bad:
        rows.insert(place, text)
    bad_lines = [line for line, row in enumerate(rows, 1) if row not in fine]
    names = [{True: "true", 2.0: "2"}.get(label, str(label).strip()) for label in good]
    with folder() as path:
        (path / "t.jsonl").write_bytes("\n".join(rows).encode(encoding))
        found = outcome(path / "t.jsonl", on_bad=on_bad)
    check(found, [*enumerate(names)], bad_lines, on_bad, "t.jsonl")


def stand_in(texts, **_):
    """Embeds a text as the number it begins with; like a real one, it takes no half characters."""
    assert all(text.encode("utf-8") for text in texts)
    return np.array([[int(text.split("|")[0])] for text in texts], dtype=np.float32)


@FEW
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=())), min_size=4, max_size=8),
    suffix=st.sampled_from(["csv", "jsonl"]),
    ascii_only=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
)
@example(["\u2028", "\x85", '"', "\r\n"], "csv", False, "utf-16")
@example(["\ud800", "\0", "", ""], "jsonl", True, "utf-8")
def test_texts(texts, suffix, ascii_only, encoding):
    half = [any("\ud800" <= letter <= "\udfff" for letter in text) for text in texts]
    if suffix == "csv":
        quoted = [f"{i}|{text}".replace('"', '""') for i, text in enumerate(texts)]
        rows = ["text,label", *(f'"{text}",{"ab"[i % 2]}' for i, text in enumerate(quoted))]
    else:
        rows = [
            json.dumps({"text": f"{i}|{text}", "label": "ab"[i % 2]}, ensure_ascii=ascii_only)
            for i, text in enumerate(texts)
        ]
    content = "\n".join(rows)
    with folder() as path, mock.patch("ofcl.data.preparation.embed", stand_in):
        try:
            (path / f"t.{suffix}").write_bytes(content.encode(encoding))
        except UnicodeEncodeError:  # not even a file
            return
        found = outcome(path / f"t.{suffix}", on_bad="skip")
    good = [(i, "ab"[i % 2]) for i in range(len(texts)) if not half[i]]
    if "\0" in content:
        assert "zero byte" in found
    else:
        check(found, good, [0] * sum(half), "skip", f"t.{suffix}")
