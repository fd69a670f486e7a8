"""`ofcl reproduce field`, on vectors in place of a dataset of the field."""

import json

import numpy as np

from tests.support.commands import in_one_process, ofcl

pytestmark = in_one_process


def test_a_method_that_does_not_apply_is_no_failure(tmp_path):
    draw, y = np.random.default_rng(0), np.repeat(np.arange(4), 20)
    x = draw.normal(size=(80, 6)).astype(np.float32) + y[:, None]
    np.savez(tmp_path / "texts.npz", x_train=x, y_train=y, x_test=x[::4], y_test=y[::4])
    field = ["reproduce", "field", "--seeds", 2, "--only", "20newsgroups/mfcl,er/sound", "--set",
             "hidden=8", "--set", "clients=2", "--set", "burn_in=0", "--data",
             f"20newsgroups={tmp_path / 'texts.npz'}", "--page", tmp_path / "page.md"]  # fmt: skip
    code, out, err = ofcl(*field, cwd=tmp_path)
    assert code == 0, err
    assert len(list((tmp_path / "reproduced" / "sound").glob("*/*/result.json"))) == 2
    page = (tmp_path / "page.md").read_text()
    assert "mfcl does not apply: mfcl makes images" in page
    assert "| er | 1 [1, 1] |" in page
    refused = json.loads((tmp_path / "reproduced" / "field-refusals.json").read_text())
    assert list(refused) == ["sound/20newsgroups_mfcl_memory-60"]
    assert "field.html" in out
