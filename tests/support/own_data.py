"""Users' own data, good and damaged, and what reading them comes to."""

import contextlib
import tempfile
import warnings
from pathlib import Path

import torch
from hypothesis import settings
from hypothesis import strategies as st

from ofcl import OfclError, Reading, load_dataset

FEW = settings(max_examples=40)
ON_BAD = st.sampled_from(["stop", "skip"])


@contextlib.contextmanager
def folder():
    """A new folder; a test's own one is the same for all examples."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def outcome(path, **how):
    """The dataset, or what was said against it; any other error and any warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            data = load_dataset(str(path), Reading(root=path.parent / "root", **how))
        except OfclError as error:
            assert path.name.split(".")[0] in str(error)
            assert "Traceback" not in str(error)
            return str(error)
    assert data.x_train.isfinite().all()
    assert data.x_test.isfinite().all()
    return data


def written(data):
    """The samples of both parts: the first value of each, and its label."""
    x = torch.cat([data.x_train, data.x_test]).flatten(1)[:, 0].double().tolist()
    y = torch.cat([data.y_train, data.y_test]).tolist()
    return sorted((value, data.labels[place]) for value, place in zip(x, y, strict=True))


def check(found, good, bad, on_bad, name):
    """The good rows and no others; `bad` are the lines of the others."""
    if bad and on_bad == "stop":
        assert isinstance(found, str)
        assert any(f"'{name}', line {line}: " in found for line in bad), found
    elif len({label for _, label in good}) < 2:
        assert isinstance(found, str)
        assert "at least two classes" in found
    else:
        assert not isinstance(found, str), found
        assert written(found) == sorted(good)
        left_out = [note for note in found.notes if "left out" in note]
        assert len(left_out) == bool(bad)
        assert all(f": {len(bad)} left out (" in note for note in left_out)


TABLE = "id,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(8))
RUINED = {
    "empty": b"",
    "blank": b"\n  \n",
    "header only": b"id,label\n",
    "no header": b"1,2\n3,4\n",
    "one class": b"id,label\n1,a\n2,a\n",
    "one name twice": b"id,id,label\n1,2,a\n3,4,b\n",
    "no label": b"id,other\n1,a\n2,b\n",
    "only the label": b"label\na\nb\n",
    "utf-16 without a mark": TABLE.encode("utf-16-le"),
    "utf-16 the other way": TABLE.encode("utf-16-be"),
    "utf-32": TABLE.encode("utf-32"),
    "utf-16, odd": TABLE.encode("utf-16")[:-1],
    "zero bytes": TABLE.encode().replace(b"4,a", b"4,a\0"),
    "open quote": TABLE.encode().replace(b"3,b", b'"3,b'),
    "open quote in the header": b'"' + TABLE.encode(),
    "quotes that swallow lines": TABLE.encode().replace(b"2,a", b'"2,a').replace(b"5,b", b'5,"b"'),
    "old Mac": TABLE.replace("\n", "\r").encode(),
    "decimal commas between commas": b"id,label\n1,5,a\n2,5,b\n",
    "long header": b"x" * 200_000 + b"\n1\n",
    "image": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "hardly varies, then large": b"id,label\n1e-30,a\n2e-30,b\n1e30,a\n1e30,b\n",
    "measures": b"x,label\n" + b"".join(b"1,0.%d\n" % i for i in range(100, 130)),
}
