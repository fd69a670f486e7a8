import ofcl
from ofcl.comparison import compare
from tests.conftest import TINY


def test_protocols_are_told_apart_by_their_name(tmp_path, blobs):
    for name, values in {
        "a": {"protocol": "sound"},
        "b": {"protocol": "published"},
        "c": {"protocol": "sound", "lr": 0.02},
        "d": {"protocol": "sound", "seed": 1},
        "e": {"protocol": "sound", "seed": 1},  # a second time: says nothing of the spread
    }.items():
        ofcl.run(blobs, out=tmp_path / name, **{**TINY, "method": "er", **values})
    lines, unfinished = compare([tmp_path])
    assert unfinished == []
    assert {tuple(line.settings) for line in lines} == {
        ("dataset", "method", "memory", "protocol", "lr")
    }
    seeds = {(line.settings["protocol"], line.settings["lr"]): line.seeds for line in lines}
    assert seeds == {("sound", 0.003): (0, 1), ("published", 3e-4): (0,), ("sound", 0.02): (0,)}


def test_published_spreads_over_clients(tmp_path, blobs):
    result = ofcl.run(blobs, out=tmp_path / "run", **{**TINY, "protocol": "published"})
    (line,), _ = compare([tmp_path])
    ends = [sum(matrix[-1]) / 3 for matrix in result.accuracy]
    assert line.A.std == abs(ends[0] - ends[1]) / 2
    assert line.global_A.std is None
