"""Figure 2 of the paper."""

import functools

import numpy as np
import pytest
from typer.testing import CliRunner

from ofcl.cli import reproduce_command
from ofcl.cli.main import app
from ofcl.reproduce.toy import make_toy

pytestmark = pytest.mark.xdist_group("toy")  # its ensemble is trained once
make_once = functools.cache(make_toy)


def test_figure_2_dense_data_make_bregman_information_small_where_confidence_is_low():
    toy = make_once()
    boundary = min(np.linspace(-1, 1, 21), key=lambda x: toy.at("confidence", x, 0))
    assert toy.at("confidence", boundary, 0) < 0.8
    far = max(toy.at("BI of an ensemble", x, y) for x in np.linspace(-5, 5, 41)
              for y in (-5.5, 5.5))  # fmt: skip
    assert far > 10 * toy.at("BI of an ensemble", boundary, 0)
    assert toy.at("confidence", -5, 0) > 0.99


def test_figure_2_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce_command, "make_toy", make_once)
    ran = CliRunner().invoke(app, ["reproduce", "figure2", "--out", str(tmp_path / "a")])
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "a" / "figure2.pdf").read_bytes().startswith(b"%PDF-")
    assert b"BI of an ensemble" in (tmp_path / "a" / "figure2.svg").read_bytes()
